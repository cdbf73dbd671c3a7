"""Faults that lose, corrupt, duplicate or mismark packets without any device counting them.

They are applied on the emulated wire: before the receiving port sees a packet, or before the sending port sees it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar

from pydantic import BeforeValidator
from typing_extensions import override

from lab.dataplane import impair
from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.values import opcodes, priorities, share_of
from lab.kernel.netlink.tc_hooks import Hook
from lab.model.impairment import Impairment, Traffic, dump, restore
from lab.wire.craft.packet_values import between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before
    from lab.model.topology import Endpoint

_DSCPS: Final = 64
_EVERYTHING: Final = frozenset(Traffic)


class MatchParameters(Parameters):
    """The affected packets, and the seed of the random choice."""

    priority: Annotated[tuple[Annotated[int, between(0, 7)], ...], BeforeValidator(priorities)] | None = None
    """Only packets of these priorities, by the DSCP map of the receiving port; lossless ports only."""
    dscp: Annotated[int, between(0, 63)] | None = None
    """Only packets with this DSCP."""
    beyond: Annotated[int, between(1, 9216)] | None = None
    """Only IP packets of this many bytes or more."""
    opcode: Annotated[frozenset[int], BeforeValidator(opcodes)] | None = None
    """Only RoCEv2 packets with this opcode: cnp, ack, write, rc_acknowledge, 0x81, as in filters."""
    seed: Annotated[int, between(0, 2**63 - 1)] = 1
    """The same seed affects the same packets in the same way."""


M = TypeVar("M", bound=Parameters)


class Impaired(Fault[M], Generic[M]):
    """A kind that impairs packets at one or both ends of a link: those received there, or those sent."""

    hook: ClassVar = Hook.INGRESS

    @abstractmethod
    def impairment(self, end: Endpoint) -> Impairment:
        """Return what happens to packets at ``end``."""

    def where(self) -> list[Endpoint]:
        """Return the impaired ends. A place names the sender, so that the other end, which receives, is impaired."""
        links = self.fabric.topology.links
        return [link.other(end) for end in self.place.ends for link in links if end in link.ends]

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(
            f"packets {'received' if self.hook is Hook.INGRESS else 'sent'} at {end}" for end in self.where()
        )

    @override
    def look(self) -> Before:
        return {str(end): dump(self.impairment(end)) for end in self.where()}

    @override
    def inject(self, before: Before) -> None:
        for end in self.where():
            impair.apply(self._place(end), restore(before[str(end)]))

    @override
    def heal(self, before: Before) -> None:
        for end in self.where():
            impair.remove(self._place(end))

    def truth(self) -> dict[str, impair.ImpairmentCounts]:
        """Return the packets affected, by end. No device counter contains them."""
        return {str(end): impair.read(self._place(end)) for end in self.where()}

    def _place(self, end: Endpoint) -> impair.ImpairmentHook:
        index = self.fabric.numbering.index(end.node, end.interface)
        return impair.ImpairmentHook(self.fabric.namespace(end.node), index, self.hook)


class Matching(Impaired[M], Generic[M]):
    """An impairment of selected packets."""

    form: ClassVar = Form.LINK

    def matched(self, end: Endpoint, p: MatchParameters) -> dict[str, Any]:
        """Return the fields of an impairment that select packets received at ``end``."""
        picked: dict[str, Any] = {"seed": p.seed, "min_size": p.beyond or 0}
        if p.opcode is not None:
            picked |= {"opcodes": p.opcode, "traffic": frozenset({Traffic.ROCE})}
        if p.priority is not None and p.dscp is not None:
            raise UsageError(f"{self.name} takes a priority or a DSCP", "leave one of them out")
        if p.dscp is not None:
            picked["dscps"] = frozenset({p.dscp})
        if p.priority is not None:
            picked["dscps"] = self._dscps(end, p.priority)
        return picked

    def _dscps(self, end: Endpoint, wanted: Sequence[int]) -> frozenset[int]:
        if self.fabric.topology.qos is None:
            raise UsageError(f"{self.name}: {end} maps no DSCP to priorities", "give dscp=26")
        table = self.fabric.qos[end.node].ports[end.interface].dscp_to_priority
        found = frozenset(dscp for dscp in range(_DSCPS) if table[dscp] in wanted)
        if not found:
            raise UsageError(f"{self.name}: no DSCP has that priority at {end}", f"rocelab qos show {end}")
        return found


class LossParameters(MatchParameters):
    """The parameters of link-loss."""

    probability: Annotated[float, share_of(2.4e-10)] | None = None
    """The share of packets that are lost, each independently: 0.1%."""
    one_in: Annotated[int, between(2, 2**32)] | None = None
    """One in so many packets is lost, the last (Guo et al., SIGCOMM 2016, section 4.1: one in 256)."""


class LinkLoss(Matching[LossParameters]):
    """A link loses some packets, and no counter shows it: a gray failure.

    Both directions of leaf1--spine1, or leaf1:swp1 for what leaf1 sends. Give probability or one-in.
    """

    name: ClassVar = "link-loss"
    parameters: ClassVar = LossParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        if (self.p.probability is None) == (self.p.one_in is None):
            raise UsageError(f"{self.name} takes a probability or one-in", "give one of them: probability=0.1%")
        return Impairment(loss=self.p.probability or 0.0, lose_every=self.p.one_in or 0, **self.matched(end, self.p))


class CutParameters(Parameters):
    """No parameters."""


class LinkCut(Impaired[CutParameters]):
    """A link delivers nothing, and both ends stay up. One direction (leaf1:swp1), or both."""

    name: ClassVar = "link-cut"
    form: ClassVar = Form.LINK
    parameters: ClassVar = CutParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(traffic=_EVERYTHING, loss=1.0)


class CorruptParameters(MatchParameters):
    """The parameters of link-corrupt."""

    probability: Annotated[float, share_of(2.4e-10)]
    """The share of packets that are corrupted: 0.1%."""
    behind_fcs: bool = False
    """The bit flips in a switch's buffer, after the FCS was checked: only RoCEv2's ICRC detects it, and the NIC drops
    the packet. Otherwise it flips on the wire, and the next MAC drops the frame."""


class LinkCorrupt(Matching[CorruptParameters]):
    """Bits flip: on the wire, where the FCS detects it, or in a switch, where only RoCEv2's ICRC does."""

    name: ClassVar = "link-corrupt"
    parameters: ClassVar = CorruptParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        picked = self.matched(end, self.p)
        if self.p.behind_fcs:
            return Impairment(corrupt_payload=self.p.probability, **picked)
        return Impairment(corrupt_frame=self.p.probability, **picked)


class DuplicateParameters(MatchParameters):
    """The parameters of link-duplicate."""

    probability: Annotated[float, share_of(2.4e-10)]
    """The share of packets that arrive twice."""


class LinkDuplicate(Matching[DuplicateParameters]):
    """Some packets arrive twice."""

    name: ClassVar = "link-duplicate"
    parameters: ClassVar = DuplicateParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(duplicate=self.p.probability, **self.matched(end, self.p))


class Mismarked(Impaired[M], Generic[M]):
    """An impairment of the packets that a NIC sends: wrong DSCP or ECN bits."""

    form: ClassVar = Form.NIC
    hook: ClassVar = Hook.EGRESS

    @override
    def where(self) -> list[Endpoint]:
        return [self.end]


class NotEct(Mismarked[CutParameters]):
    """A host sends its RoCEv2 packets without ECT: switches cannot mark them."""

    name: ClassVar = "not-ect"
    parameters: ClassVar = CutParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(traffic=frozenset({Traffic.ROCE}), clear_ecn=True)


class DscpParameters(Parameters):
    """The parameters of dscp-rewritten."""

    dscp: Annotated[int, between(0, 63)] = 0
    """The DSCP of its RoCEv2 packets."""


class DscpRewritten(Mismarked[DscpParameters]):
    """A host sends its RoCEv2 packets with an unexpected DSCP: they are in the wrong class."""

    name: ClassVar = "dscp-rewritten"
    parameters: ClassVar = DscpParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(traffic=frozenset({Traffic.ROCE}), dscp=self.p.dscp)
