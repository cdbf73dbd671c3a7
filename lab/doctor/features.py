"""Derive from the capabilities where each feature works: here, in the VM, or not at all. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.doctor import remedies
from lab.doctor.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.doctor.remedies import HostDistribution
    from lab.kernel.bpf.probe import ProbeFinding


class FeaturePlace(StrEnum):
    """The place where a feature works."""

    HERE = "here"
    VM = "in the VM"
    NOWHERE = "no"


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that users do, and the capabilities that it needs."""

    name: str
    needs: tuple[str, ...]
    in_vm: bool = True
    """Whether the VM can provide it on a machine that lacks the capabilities."""


@dataclass(frozen=True, slots=True)
class FeatureVerdict:
    """A feature of rocelab on this machine. The remedy is for the first missing capability."""

    feature: str
    place: FeaturePlace
    """The place where the feature works."""
    lacks: tuple[str, ...]
    """Names of the required capabilities that this machine lacks."""
    remedy: str


_NAMESPACES: Final = ("root", "network namespaces", "veth")
_FABRIC: Final = (*_NAMESPACES, "tbf", "FRR")
_RDMA: Final = (*_FABRIC, "rxe per namespace", "perftest")
_PORT: Final = (*_RDMA, "BTF", "BPF qdisc")

FABRIC: Final = Feature("fabric", _FABRIC)
RDMA: Final = Feature("RDMA", _RDMA)
VM: Final = Feature("VM", ("QEMU", "mmdebstrap"), in_vm=False)
FEATURES: Final = (
    FABRIC,
    Feature("EVPN L2", (*_FABRIC, "VXLAN", "VLAN bridge")),
    Feature("EVPN L3", (*_FABRIC, "VXLAN", "VLAN bridge", "VRF")),
    Feature("delay and impairment", (*_FABRIC, "netem")),
    Feature("capture", _NAMESPACES),
    RDMA,
    Feature("lossless port", _PORT),
    Feature("congestion control", (*_PORT, "rxe BTF")),
)
_MENDED_BY: Final = {capability.name: capability.mend for capability in CAPABILITIES}


def judge(host: HostDistribution, findings: Mapping[str, ProbeFinding]) -> list[FeatureVerdict]:
    """Return a verdict on each feature, and outside of the VM also on the VM itself."""
    vm = None if host.in_vm else _judge(VM, host, findings, vm_works=False)
    vm_works = vm is not None and vm.place is FeaturePlace.HERE
    verdicts = [_judge(feature, host, findings, vm_works=vm_works) for feature in FEATURES]
    return verdicts if vm is None else [*verdicts, vm]


def _judge(
    feature: Feature, host: HostDistribution, findings: Mapping[str, ProbeFinding], *, vm_works: bool
) -> FeatureVerdict:
    lacks = tuple(name for name in feature.needs if not findings[name].present)
    if not lacks:
        return FeatureVerdict(feature=feature.name, place=FeaturePlace.HERE, lacks=(), remedy="")
    if vm_works and feature.in_vm:
        return FeatureVerdict(feature=feature.name, place=FeaturePlace.VM, lacks=lacks, remedy=remedies.the_vm(host))
    return FeatureVerdict(
        feature=feature.name, place=FeaturePlace.NOWHERE, lacks=lacks, remedy=_MENDED_BY[lacks[0]](host)
    )
