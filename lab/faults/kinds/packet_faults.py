"""Links that lose or spoil packets without a word, and NICs that mark theirs wrongly.

The emulated wire does it, before the port that receives sees the packet or the port that sends has marked it: no
counter of any device tells.
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
    """Which packets, and by which draw."""

    priority: Annotated[tuple[Annotated[int, between(0, 7)], ...], BeforeValidator(priorities)] | None = None
    """Only packets of these priorities, as the port that receives them maps their DSCP; lossless ports only."""
    dscp: Annotated[int, between(0, 63)] | None = None
    """Only packets with this DSCP."""
    beyond: Annotated[int, between(1, 9216)] | None = None
    """Only IP packets of this many bytes, or more."""
    opcode: Annotated[frozenset[int], BeforeValidator(opcodes)] | None = None
    """Only RoCEv2 packets with this opcode: cnp, ack, write, rc_acknowledge, 0x81, as in filters."""
    seed: Annotated[int, between(0, 2**63 - 1)] = 1
    """The same seed and the same packets have the same fate."""


M = TypeVar("M", bound=Parameters)


class Impaired(Fault[M], Generic[M]):
    """A kind that is an impairment at an end of a link, or at both: of what comes in there, or of what goes out."""

    hook: ClassVar = Hook.INGRESS

    @abstractmethod
    def impairment(self, end: Endpoint) -> Impairment:
        """What befalls packets at ``end``."""

    def where(self) -> list[Endpoint]:
        """Ends at which it happens: a link's are named by what they send, which comes in at the other."""
        links = self.fabric.topology.links
        return [link.other(end) for end in self.place.ends for link in links if end in link.ends]

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(
            f"what {'comes in' if self.hook is Hook.INGRESS else 'goes out'} at {end}" for end in self.where()
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
        """What it has done, by end: known here and to no counter of a device."""
        return {str(end): impair.read(self._place(end)) for end in self.where()}

    def _place(self, end: Endpoint) -> impair.ImpairmentHook:
        index = self.fabric.numbering.index(end.node, end.interface)
        return impair.ImpairmentHook(self.fabric.namespace(end.node), index, self.hook)


class Matching(Impaired[M], Generic[M]):
    """A kind of them that picks packets."""

    form: ClassVar = Form.LINK

    def matched(self, end: Endpoint, p: MatchParameters) -> dict[str, Any]:
        """The fields of an impairment that pick packets which come in at ``end``."""
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
    """How many are lost."""

    probability: Annotated[float, share_of(2.4e-10)] | None = None
    """The share of packets that is lost, each by itself: 0.1%."""
    one_in: Annotated[int, between(2, 2**32)] | None = None
    """Of so many packets one is lost, the last (Guo et al., SIGCOMM 2016, section 4.1: one in 256)."""


class LinkLoss(Matching[LossParameters]):
    """A link loses some packets, and no counter tells: a gray failure.

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
    """Nothing to say."""


class LinkCut(Impaired[CutParameters]):
    """A link is dead, and its ends do not see it: nothing arrives. One direction, leaf1:swp1, or both."""

    name: ClassVar = "link-cut"
    form: ClassVar = Form.LINK
    parameters: ClassVar = CutParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(traffic=_EVERYTHING, loss=1.0)


class CorruptParameters(MatchParameters):
    """How many, and where."""

    probability: Annotated[float, share_of(2.4e-10)]
    """The share of packets that is hit: 0.1%."""
    behind_fcs: bool = False
    """The bit flips in a buffer, behind the frame's checksum: RoCEv2's own, the ICRC, tells, and the NIC drops it.
    Otherwise it flips on the wire, and the frame vanishes at the next MAC."""


class LinkCorrupt(Matching[CorruptParameters]):
    """Bits flip: on the wire, where the frame's checksum tells, or in a switch, where only RoCEv2's ICRC does."""

    name: ClassVar = "link-corrupt"
    parameters: ClassVar = CorruptParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        picked = self.matched(end, self.p)
        if self.p.behind_fcs:
            return Impairment(corrupt_payload=self.p.probability, **picked)
        return Impairment(corrupt_frame=self.p.probability, **picked)


class DuplicateParameters(MatchParameters):
    """How many."""

    probability: Annotated[float, share_of(2.4e-10)]
    """The share of packets that arrives twice."""


class LinkDuplicate(Matching[DuplicateParameters]):
    """Some packets arrive twice."""

    name: ClassVar = "link-duplicate"
    parameters: ClassVar = DuplicateParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(duplicate=self.p.probability, **self.matched(end, self.p))


class Mismarked(Impaired[M], Generic[M]):
    """A kind of them by which a NIC marks wrongly what it sends."""

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
    """To what."""

    dscp: Annotated[int, between(0, 63)] = 0
    """The DSCP that its RoCEv2 packets have instead."""


class DscpRewritten(Mismarked[DscpParameters]):
    """A host sends its RoCEv2 packets with another DSCP than the fabric expects: in the wrong class."""

    name: ClassVar = "dscp-rewritten"
    parameters: ClassVar = DscpParameters

    @override
    def impairment(self, end: Endpoint) -> Impairment:
        return Impairment(traffic=frozenset({Traffic.ROCE}), dscp=self.p.dscp)
