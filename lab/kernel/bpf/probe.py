"""The capabilities of this machine, each probed in a temporary namespace."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from lab.errors import CommandFailed, EnvironmentLacks, LabError, OperationFailed
from lab.kernel.bpf import bpf_object, clang, libbpf
from lab.kernel.netlink import routes
from lab.kernel.process import libc, netns_teardown, process, sockets, threads, tuning
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

BTF: Final = Path("/sys/kernel/btf/vmlinux")
_BTF_MAGIC: Final = 0xEB9F
_QDISC_STRUCT_OPS: Final = b"\0bpf_struct_ops_Qdisc_ops\0"
"""The kernel's BTF type for struct_ops that are queueing disciplines; each accepted kind of struct_ops has one."""
_RXE_FUNCTION: Final = b"\0rxe_modify_qp\0"
"""A function whose calls show connected QPs (``lab/dataplane/bpf/qp_pairs.bpf.c``)."""
_LEAST_QDISC: Final = Path(__file__).with_name("probe.bpf.c")
_HASH_SEED: Final = "net/ipv4/fib_multipath_hash_seed"
_ARGUMENTS: Final[Mapping[str, Sequence[str]]] = {
    "vxlan": ("id", "1", "dstport", "4789"),
    "vrf": ("table", "10"),
    "tbf": ("rate", "1gbit", "burst", "10kb", "latency", "1ms"),
}
_SENDER, _GROUP = IPv4Address("192.0.2.1"), IPv4Address("239.0.0.1")
"""Addresses of the probed tunnel."""
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """Whether a capability is present, None if it could not be probed, and a detail."""

    present: bool | None
    detail: str = ""


def in_new_namespace(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread with a new network namespace, which ends afterwards. Needs root."""
    kept: list[int] = []

    def body() -> T:
        libc.unshare(libc.CLONE_NEWNET)
        kept.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        return work()

    try:
        return threads.in_thread(body)
    finally:
        with netns_teardown.ending():
            for namespace in kept:
                os.close(namespace)


def has_qdisc(kind: str) -> bool:
    """Return whether a queueing discipline of this kind can be attached."""
    return qdisc(kind).present is True


def root() -> ProbeFinding:
    """Probe whether rocelab runs as root."""
    uid = os.geteuid()
    return ProbeFinding(uid == 0, "" if uid == 0 else f"uid {uid}")


def namespaces() -> ProbeFinding:
    """Probe whether network namespaces can be created."""
    return _try(lambda: None)


def device(kind: str) -> ProbeFinding:
    """Probe whether the kernel can create interfaces of this kind (``veth``, ``vxlan``, ``vrf``)."""
    return _try_command("ip", "link", "add", "probe0", "type", kind, *_ARGUMENTS.get(kind, ()))


def routed_tunnel() -> ProbeFinding:
    """Probe multicast routing, and VXLAN devices that send to their groups by multicast routes (Linux 6.17).

    No kernel reports whether a device does, and older kernels ignore the attribute. A kernel that knows it rejects a
    value other than 0 and 1.
    """
    from lab.kernel.netlink import logical_links, multicast, rtnl  # noqa: PLC0415 -- as in bpf_qdisc

    def add(index: int, routed: int) -> None:
        batch = rtnl.NetlinkBatch()
        tunnel = logical_links.LogicalLink(f"probe{index}", index, 1500, master=2)
        flooding = multicast.flooding_to(_GROUP, routed=routed)
        logical_links.add_vxlan(batch, tunnel, vni=index, local=_SENDER, flooding=flooding)
        batch.commit()

    def trial() -> None:
        if not routes.MULTICAST.exists():
            raise EnvironmentLacks("without CONFIG_IP_MROUTE")
        batch = rtnl.NetlinkBatch()
        logical_links.add_bridge(batch, logical_links.LogicalLink("probe2", 2, 1500))
        batch.commit()
        add(3, routed=1)
        try:
            add(4, routed=2)
        except OperationFailed:
            return
        raise EnvironmentLacks("since Linux 6.17")

    return _try(trial)


def load_bonding() -> None:
    """Load the bonding module without its default device bond0. A missing module is fine."""
    if not Path("/sys/module/bonding").exists() and (modprobe := process.which("modprobe")) is not None:
        process.run([modprobe, "-q", "bonding", "max_bonds=0"], check=False)


def vlan_bridge() -> ProbeFinding:
    """Probe VLAN-aware bridges, and VLAN interfaces on them."""

    def trial() -> None:
        process.run(["ip", "link", "add", "probe0", "type", "bridge", "vlan_filtering", "1"])
        process.run(["ip", "link", "add", "link", "probe0", "name", "probe1", "type", "vlan", "id", "10"])

    return _try(trial)


def qdisc(kind: str) -> ProbeFinding:
    """Probe whether a queueing discipline of this kind can be attached."""
    return _try_command("tc", "qdisc", "add", "dev", "lo", "root", kind, *_ARGUMENTS.get(kind, ()))


def hash_seed() -> ProbeFinding:
    """Probe whether each namespace has its own ECMP hash seed (Linux 6.11)."""

    def trial() -> None:
        tuning.write_sysctls({_HASH_SEED: 1})

    return _try(trial)


def rxe() -> ProbeFinding:
    """Probe whether a SoftRoCE device works inside a namespace (Linux 7.1).

    Older kernels create the device, too, but listen for its packets only in the root namespace.
    """
    name = f"rl-probe-{os.getpid()}"

    def trial() -> None:
        process.run(["ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"])
        with netns_teardown.none_ending():
            process.run(["rdma", "link", "add", name, "type", "rxe", "netdev", "probe0"])
            try:
                if not sockets.waits("udp", ROCEV2_PORT):
                    raise EnvironmentLacks("listens in the root namespace only")
            finally:
                process.run(["rdma", "link", "del", name])

    return _try(trial)


def btf() -> ProbeFinding:
    """Probe whether the kernel has BTF, which the BPF programs of the emulated port need."""
    data = _btf()
    if int.from_bytes(data[:2], "little") != _BTF_MAGIC:
        return ProbeFinding(False, f"no {BTF.name} in {BTF.parent}")
    return ProbeFinding(True)


def rxe_btf() -> ProbeFinding:
    """Probe whether BPF programs can trace rxe, which shows them the connected QPs; the module must be loaded."""
    for name in ("rdma_rxe", BTF.name):
        file = BTF.with_name(name)
        if file.exists() and _RXE_FUNCTION in file.read_bytes():
            return ProbeFinding(True)
    return ProbeFinding(False, f"no rdma_rxe in {BTF.parent}")


def bpf_qdisc() -> ProbeFinding:
    """Probe queueing disciplines written in BPF: a minimal one is loaded and attached."""
    if not declares_bpf_qdisc():
        return ProbeFinding(False, "no struct_ops Qdisc_ops")

    # pyroute2 takes over a second to import in the software-emulated VM, and only this trial needs it.
    from lab.kernel.netlink import rtnl, tc  # noqa: PLC0415
    from lab.kernel.netlink.links import LOOPBACK_INDEX  # noqa: PLC0415

    def trial() -> None:
        kind = f"rl_probe{os.getpid()}"
        with bpf_object.Object.open(clang.compile_bpf(_LEAST_QDISC)) as discipline:
            discipline.set_qdisc_id("probe", kind)
            discipline.load()
            discipline.attach_struct_ops("probe")
            batch = rtnl.NetlinkBatch()
            tc.set_root(batch, LOOPBACK_INDEX, kind, 1)
            batch.commit()

    return _try(trial)


def declares_bpf_qdisc() -> bool:
    """Return whether the kernel's BTF has BPF qdiscs (Linux 6.16 with CONFIG_NET_SCH_BPF). Needs no root."""
    return _QDISC_STRUCT_OPS in _btf()


def lack_of_libbpf() -> str:
    """Return the remedy if libbpf, which loads BPF programs, is missing or too old; "" otherwise."""
    try:
        libbpf.require_qdiscs()
    except EnvironmentLacks as error:
        return error.remedy
    return ""


def tool(name: str, *version_arguments: str) -> ProbeFinding:
    """Probe whether a program is installed. With ``version_arguments`` the finding contains its version."""
    path = process.which(name)
    if path is None:
        return ProbeFinding(False, "not installed")
    if not version_arguments:
        return ProbeFinding(True)
    said = process.run([path, *version_arguments], check=False)
    version = _VERSION.search(said.stdout or said.stderr)
    return ProbeFinding(True, version.group() if version else "")


def _btf() -> bytes:
    try:
        return BTF.read_bytes()
    except OSError:
        return b""


def _try_command(*argv: str) -> ProbeFinding:
    def trial() -> None:
        process.run(argv)

    return _try(trial)


def _try(trial: Callable[[], None]) -> ProbeFinding:
    """Return the finding of a trial in its own namespace: present if it raised nothing."""
    if os.geteuid() != 0:
        return ProbeFinding(None, "needs root to try")
    try:
        in_new_namespace(trial)
    except CommandFailed as error:
        return ProbeFinding(False, _said(error))
    except LabError as error:
        return ProbeFinding(False, error.message)
    except OSError as error:
        return ProbeFinding(False, error.strerror or str(error))
    return ProbeFinding(True)


def _said(error: CommandFailed) -> str:
    lines = error.stderr.strip().splitlines()
    return (
        lines[-1].removeprefix("Error: ").rstrip(".") if lines else f"{error.argv[0]} ended with {error.returncode}"
    )
