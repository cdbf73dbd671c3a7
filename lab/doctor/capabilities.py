"""The table of all capabilities that rocelab uses: how each is probed, what needs it, and its remedy."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.dataplane import port_maps
from lab.doctor import remedies
from lab.errors import LabError
from lab.kernel.bpf import probe
from lab.kernel.bpf.probe import ProbeFinding
from lab.kernel.process import process
from lab.rdma import rxe
from lab.routing import daemons
from lab.vm.host import kvm
from lab.vm.host.qemu import Accel
from lab.vm.host.vm_state import state_folder
from lab.vm.image import debian
from lab.vm.image.arch import host_arch
from lab.vm.image.recipe import current_recipe, image_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lab.doctor.remedies import HostDistribution


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a machine may have or lack."""

    name: str
    serves: str
    """The feature that needs it."""
    look: Callable[[HostDistribution], ProbeFinding]
    """Probes it, and leaves nothing behind."""
    mend: Callable[[HostDistribution], str]
    """Returns the command that provides it."""
    optional: bool = False
    """Whether the feature works without it, with limitations."""
    on_host: bool = False
    """Whether it is useless inside the VM."""


def _frr(host: HostDistribution) -> ProbeFinding:  # noqa: ARG001
    try:
        found = daemons.version()
    except LabError as error:
        return ProbeFinding(False, error.message)
    have, oldest = (".".join(map(str, numbers)) for numbers in (found, daemons.OLDEST))
    return (
        ProbeFinding(True, have) if found >= daemons.OLDEST else ProbeFinding(False, f"{have} is older than {oldest}")
    )


def _rxe(host: HostDistribution) -> ProbeFinding:
    """Probe rxe after loading its modules, as `up` does: the device is useless unless programs see it."""
    if not host.root:
        return probe.rxe()
    try:
        rxe.check()
    except LabError as error:
        return ProbeFinding(False, error.message)
    return probe.rxe()


def _bpf_qdisc(host: HostDistribution) -> ProbeFinding:
    """Probe with the port's own programs. In the VM, with its known kernel, a minimal qdisc does.

    Loading the port's programs takes seconds there.
    """
    return probe.bpf_qdisc() if host.in_vm else port_maps.trial()


def _mend_bpf_qdisc(host: HostDistribution) -> str:
    """Return the remedy: libbpf if only the library is missing, and the VM if the kernel lacks BPF qdiscs."""
    return (probe.declares_bpf_qdisc() and probe.lack_of_libbpf()) or remedies.the_vm(host)


def _image_builder(host: HostDistribution) -> ProbeFinding:  # noqa: ARG001
    try:
        debian.require_keyring()
    except LabError as error:
        return ProbeFinding(False, error.message)
    return probe.tool("mmdebstrap", "--version")


def _image(host: HostDistribution) -> ProbeFinding:  # noqa: ARG001
    try:
        image = image_of(current_recipe())
    except LabError as error:
        return ProbeFinding(False, error.message)
    return ProbeFinding(True, image.hash) if image.complete else ProbeFinding(False, "not built")


def _kvm(host: HostDistribution) -> ProbeFinding:
    """Run a probe guest, once per boot of the host: the device node alone proves nothing."""
    if not host.kvm:
        return ProbeFinding(False, f"no {remedies.KVM}")
    if not os.access(remedies.KVM, os.R_OK | os.W_OK):
        return ProbeFinding(False, f"{remedies.KVM} is closed to uid {os.geteuid()}")
    try:
        image, state = image_of(current_recipe()), state_folder()
        if not image.complete:
            return ProbeFinding(None, "rocelab vm up tries it")
        state.create()
        works = kvm.choose_accel(host_arch(), image, state) is Accel.KVM
    except LabError as error:
        return ProbeFinding(False, error.message)
    return ProbeFinding(works, "runs a guest" if works else "a guest hangs")


def _docker(_: HostDistribution) -> ProbeFinding:
    """Probe Docker's engine: many machines have the client program, but no engine."""
    program = process.which("docker")
    if program is None:
        return ProbeFinding(False, "not installed")
    done = process.run([program, "version", "--format", "{{.Server.Version}}"], check=False)
    return (
        ProbeFinding(True, done.stdout.strip()) if done.returncode == 0 else ProbeFinding(False, "no engine answers")
    )


CAPABILITIES: Final = (
    Capability(name="root", serves="every fabric here", look=lambda _: probe.root(), mend=remedies.become_root),
    Capability(name="network namespaces", serves="nodes", look=lambda _: probe.namespaces(), mend=remedies.the_vm),
    Capability(name="veth", serves="links", look=lambda _: probe.device("veth"), mend=remedies.the_vm),
    Capability(name="tbf", serves="link rates", look=lambda _: probe.qdisc("tbf"), mend=remedies.kernel_module),
    Capability(name="FRR", serves="BGP on switches", look=_frr, mend=lambda host: remedies.install(host, "frr")),
    Capability(name="VXLAN", serves="EVPN L2", look=lambda _: probe.device("vxlan"), mend=remedies.kernel_module),
    Capability(name="VLAN bridge", serves="EVPN L2", look=lambda _: probe.vlan_bridge(), mend=remedies.kernel_module),
    Capability(name="VRF", serves="EVPN L3", look=lambda _: probe.device("vrf"), mend=remedies.kernel_module),
    Capability(
        name="ECMP hash seed",
        serves="ECMP in three tiers",
        look=lambda _: probe.hash_seed(),
        mend=remedies.the_vm,
        optional=True,
    ),
    Capability(
        name="netem",
        serves="link delay, impairment",
        look=lambda _: probe.qdisc("netem"),
        mend=remedies.kernel_module,
    ),
    Capability(name="rxe per namespace", serves="RDMA on hosts", look=_rxe, mend=remedies.the_vm),
    Capability(
        name="perftest",
        serves="rocelab rdma",
        look=lambda _: probe.tool("ib_write_bw", "--version"),
        mend=lambda host: remedies.install(host, "perftest"),
    ),
    Capability(name="BTF", serves="BPF programs", look=lambda _: probe.btf(), mend=remedies.the_vm),
    Capability(name="rxe BTF", serves="congestion control", look=lambda _: probe.rxe_btf(), mend=remedies.the_vm),
    Capability(name="BPF qdisc", serves="lossless port", look=_bpf_qdisc, mend=_mend_bpf_qdisc),
    Capability(
        name="tshark",
        serves="reading captures",
        look=lambda _: probe.tool("tshark", "--version"),
        mend=lambda host: remedies.install(host, "tshark"),
        optional=True,
    ),
    Capability(
        name="QEMU",
        serves="rocelab vm",
        look=lambda host: probe.tool(host.qemu, "--version"),
        mend=lambda host: remedies.install(host, host.qemu_package),
        on_host=True,
    ),
    Capability(
        name="mmdebstrap",
        serves="rocelab vm build",
        look=_image_builder,
        mend=lambda host: remedies.install(host, "mmdebstrap", "debian-archive-keyring", "uidmap"),
        on_host=True,
    ),
    Capability(
        name="VM image",
        serves="rocelab vm, at once",
        look=_image,
        mend=lambda _: "rocelab vm build",
        optional=True,
        on_host=True,
    ),
    Capability(
        name="KVM",
        serves="rocelab vm in the host's time",
        look=_kvm,
        mend=remedies.run_kvm,
        optional=True,
        on_host=True,
    ),
    Capability(
        name="containerlab",
        serves="exported fabrics",
        look=lambda _: probe.tool("containerlab", "version"),
        mend=lambda _: "its own installer, or rocelab vm up --with containerlab",
        optional=True,
        on_host=True,
    ),
    Capability(
        name="Docker",
        serves="containers for containerlab",
        look=_docker,
        mend=lambda host: "docker-up" if host.in_vm else remedies.install(host, "docker.io"),
        optional=True,
        on_host=True,
    ),
)


def relevant(host: HostDistribution) -> list[Capability]:
    """Return the capabilities that matter here: inside the VM, those of its host do not."""
    return [capability for capability in CAPABILITIES if not (host.in_vm and capability.on_host)]


def look(host: HostDistribution, capabilities: Iterable[Capability]) -> Mapping[str, ProbeFinding]:
    """Probe the capabilities in parallel. Return the findings by name, in the given order."""
    wanted = list(capabilities)
    with ThreadPoolExecutor() as testers:
        findings = testers.map(lambda capability: capability.look(host), wanted)
        return dict(zip((capability.name for capability in wanted), findings, strict=True))
