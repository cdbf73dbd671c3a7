"""Missing capabilities decide where a feature works, and each of them has a remedy."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.doctor.capabilities import CAPABILITIES, Capability, relevant
from lab.doctor.features import FABRIC, FEATURES, VM, FeaturePlace, FeatureVerdict, judge
from lab.doctor.remedies import HostDistribution
from lab.kernel.bpf import probe
from lab.kernel.bpf.probe import ProbeFinding
from lab.routing import daemons

HOST = HostDistribution("debian", "x86_64", "6.1.0-35-amd64", root=True, in_vm=False, kvm=True)
GUEST = replace(HOST, in_vm=True)
NAMES = [capability.name for capability in CAPABILITIES]


def found(*, lacking: tuple[str, ...] = (), untried: tuple[str, ...] = ()) -> dict[str, ProbeFinding]:
    return {name: ProbeFinding(None if name in untried else name not in lacking) for name in NAMES}


def verdicts(host: HostDistribution, findings: Mapping[str, ProbeFinding]) -> dict[str, FeatureVerdict]:
    return {verdict.feature: verdict for verdict in judge(host, findings)}


def test_a_machine_with_everything_does_everything_here() -> None:
    assert {verdict.place for verdict in judge(HOST, found())} == {FeaturePlace.HERE}


def test_names_are_unique_and_features_need_what_exists() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {need for feature in (*FEATURES, VM) for need in feature.needs} <= set(NAMES)


def test_a_kernel_without_rdma_sends_rdma_to_the_vm_and_nothing_else() -> None:
    seen = verdicts(HOST, found(lacking=("rxe per namespace",)))
    moved = {name for name, verdict in seen.items() if verdict.place is FeaturePlace.VM}
    assert moved == {"RDMA", "lossless port", "congestion control"}
    assert seen["RDMA"] == FeatureVerdict("RDMA", FeaturePlace.VM, ("rxe per namespace",), "rocelab vm up")


def test_without_types_of_rxe_only_congestion_control_is_lacking() -> None:
    seen = verdicts(HOST, found(lacking=("rxe BTF",)))
    assert {name for name, verdict in seen.items() if verdict.place is not FeaturePlace.HERE} == {
        "congestion control"
    }


@pytest.mark.parametrize(
    ("files", "present"),
    [
        ({"vmlinux": b"\0rxe_modify_qp\0"}, True),
        ({"vmlinux": b"", "rdma_rxe": b"\0rxe_modify_qp\0"}, True),
        ({"vmlinux": b"\0modify_qp\0", "rdma_rxe": b""}, False),
        ({"vmlinux": b""}, False),
    ],
    ids=["built in", "module", "other functions", "no types of modules"],
)
def test_rxe_is_traced_where_its_types_are(
    files: Mapping[str, bytes], present: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(probe, "BTF", tmp_path / "vmlinux")
    assert probe.rxe_btf().present is present


def test_without_qemu_what_lacks_here_works_nowhere() -> None:
    seen = verdicts(HOST, found(lacking=("VRF", "QEMU")))
    assert seen["EVPN L3"].place is FeaturePlace.NOWHERE
    assert seen["VM"] == FeatureVerdict("VM", FeaturePlace.NOWHERE, ("QEMU",), "apt-get install qemu-system-x86")
    assert seen["fabric"].place is FeaturePlace.HERE


def test_inside_the_vm_there_is_no_second_vm() -> None:
    inside = {capability.name for capability in relevant(GUEST)}
    assert not inside & {"QEMU", "KVM", "mmdebstrap", "VM image"}
    seen = verdicts(GUEST, {name: ProbeFinding(name != "netem") for name in inside})
    assert "VM" not in seen
    assert seen["delay and impairment"].place is FeaturePlace.NOWHERE


def test_what_could_not_be_tried_does_not_count_as_there() -> None:
    user = replace(HOST, root=False)
    untried = ("network namespaces", "veth", "tbf", "VXLAN", "VRF", "netem", "rxe per namespace")
    findings = found(lacking=("root", "QEMU"), untried=untried)
    assert verdicts(user, findings)["fabric"].place is FeaturePlace.NOWHERE
    assert verdicts(user, findings)["fabric"].remedy == "sudo rocelab doctor"


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability.name)
@pytest.mark.parametrize(
    "host",
    [HOST, GUEST, replace(HOST, root=False), replace(HOST, distribution="", machine="riscv64", kvm=False)],
    ids=["root", "guest", "user", "unknown"],
)
def test_every_lack_has_a_remedy_of_one_line(capability: Capability, host: HostDistribution) -> None:
    remedy = capability.mend(host)
    assert remedy
    assert "\n" not in remedy
    assert "://" not in remedy
    assert not remedy.startswith("apt-get") or host.root


@pytest.mark.parametrize(
    ("host", "remedy"),
    [
        (replace(HOST, distribution="ubuntu", release="6.8.0-60-generic"), "linux-modules-extra-6.8.0-60-generic"),
        (replace(HOST, release="6.1.0-35-cloud-amd64"), "apt-get install linux-image-amd64"),
        (replace(HOST, release="6.12.1-custom"), "rocelab vm up"),
    ],
    ids=["ubuntu", "debian-cloud", "own-kernel"],
)
def test_a_missing_module_is_looked_for_where_the_distribution_keeps_it(host: HostDistribution, remedy: str) -> None:
    (netem,) = (capability for capability in CAPABILITIES if capability.name == "netem")
    assert netem.mend(host).endswith(remedy)


def test_arm_hosts_get_the_arm_packages() -> None:
    arm = replace(HOST, machine="aarch64", root=False)
    (qemu,) = (capability for capability in CAPABILITIES if capability.name == "QEMU")
    assert qemu.mend(arm) == "sudo apt-get install qemu-system-arm"


def test_the_fabric_is_the_feature_that_decides_the_exit_code() -> None:
    assert FEATURES[0] is FABRIC


@pytest.mark.parametrize(
    ("version", "finding"),
    [
        ((8, 4, 4), ProbeFinding(True, "8.4.4")),
        ((10, 3), ProbeFinding(True, "10.3")),
        ((7, 5), ProbeFinding(False, "7.5 is older than 8.4")),
    ],
)
def test_frr_must_be_new_enough(
    version: tuple[int, ...], finding: ProbeFinding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "version", lambda: version)
    (frr,) = (capability for capability in CAPABILITIES if capability.name == "FRR")
    assert frr.look(HOST) == finding
