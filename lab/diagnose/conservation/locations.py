"""Places where something happens to packets, by arithmetic: independent of any cause, and at any rate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.conservation.late_links import late_link
from lab.diagnose.symptom import Evidence
from lab.diagnose.symptoms import probes
from lab.diagnose.symptoms.classes import mismatched
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.facts import Lane, WindowFacts

RESENT: Final = ("out_of_seq_request", "completer_retry_err", "rcvd_seq_err", "retry_exceeded_err")
"""Counters of an RDMA device that grow when packets are lost or reordered."""
_QUIET: Final = 17
"""More packets than the slack, if no RDMA device reports a loss: an interrupted sampler reads two ends apart."""
_FOREVER: Final = 0.98
"""Share of a window. A port that is paused longer holds what waits in it."""
_FEW: Final = 8
"""Packets. A host takes fewer than this without its RDMA device when a transfer ends."""

_VANISHES: Final = {
    HopKind.LINK: "packets sent into it do not arrive",
    HopKind.SWITCH: "packets enter it, and neither leave it, wait in it, nor are counted as dropped",
    HopKind.NIC_RX: "packets arrive at the NIC, and its RDMA device does not count them",
    HopKind.NIC_TX: "packets of its RDMA device do not leave the NIC",
}
_NICS: Final = {HopKind.NIC_RX, HopKind.NIC_TX}


class PacketEffect(StrEnum):
    """An effect on packets at a place."""

    VANISH = "packets vanish"
    DUPLICATE = "packets are duplicated"
    RECLASS = "packets change their class"
    DROP = "packets are dropped and counted"
    HOLD = "packets are held"
    REORDER = "packets arrive out of order"


@dataclass(frozen=True, slots=True)
class Location:
    """A place, what happens there, and to how many packets of how many."""

    place: str
    """A link ``A--B`` (what A sends), a port, a switch, or a NIC."""
    effect: PacketEffect
    packets: int
    of: int
    evidence: Evidence

    @property
    def share(self) -> float:
        """The affected share of packets, 0 to 1; 0.0 if nothing was counted."""
        return min(1.0, self.packets / self.of) if self.of else 0.0


def locate(facts: WindowFacts) -> tuple[Location, ...]:
    """Return the places of a window where packets are not conserved, the most affected share first.

    Places where packets vanish, are duplicated, dropped or held come before those that only show the consequences.
    """
    hops = (each for kind in HopKind for each in at_hops(facts, kind))
    found = [*hops, *_drops(facts), *_held(facts), *_classes(facts), *overtaken_acks(facts)]
    if not found:
        found = list(_out_of_order(facts))
    return tuple(sorted(found, key=lambda each: -each.share))


def vanishing(facts: WindowFacts, kind: HopKind) -> Iterator[HopBalance]:
    """Yield the hops of a kind at which packets vanish beyond doubt.

    Links that went down are left out: what was in flight is gone. So are hops of ports that count nothing. If only
    acknowledgements are lost, no RDMA device reports it: then a link must lose packets again and again, or many.
    """
    changed = {change.port for change in facts.links if not change.up} | facts.down
    resent = is_resent(facts)
    for hop in _counted_hops(facts, kind):
        more = 0 if resent or hop.losses else _QUIET
        if hop.missing > hop.slack + more and not changed & set(hop.place.split("--")):
            yield hop


def uncounted_ports(facts: WindowFacts) -> dict[str, int]:
    """Return ports that count nothing although their peer receives packets from them, and how many these are.

    They have lost the queues that count. If cables are swapped, packets of other ports come to the peer. So packets
    must also vanish in the port's switch, or between the NIC and its RDMA device.
    """
    wrong = {hop.place for hop in facts.hops if hop.kind is not HopKind.LINK and abs(hop.missing) > hop.slack}
    idle = [name for name in facts.ports if not any(map(_packets, facts.by_port.get(name, ())))]
    found = {}
    for name in idle:
        came = sum(lane.rx_packets for lane in facts.by_port.get(facts.peer(name), ()))
        if came > _QUIET and {name, name.partition(":")[0]} & wrong:
            found[name] = came
    return found


def _packets(lane: Lane) -> int:
    return lane.tx_packets + lane.rx_packets


def _counted_hops(facts: WindowFacts, kind: HopKind) -> Iterator[HopBalance]:
    """Yield the hops of a kind without those of ports that count nothing."""
    ports = uncounted_ports(facts)
    without = {*ports, *(port.partition(":")[0] for port in ports)}
    for hop in facts.hops:
        if hop.kind is kind and not without & set(hop.place.split("--")):
            yield hop


def is_resent(facts: WindowFacts) -> bool:
    """Return whether an RDMA device retransmitted, a sweep lost packets, or a transfer failed."""
    return (
        probes.missing(facts) > 0
        or bool(facts.gave_up)
        or any(each.get(name) for each in facts.devices.values() for name in RESENT)
    )


def at_hops(facts: WindowFacts, kind: HopKind) -> Iterator[Location]:
    """Yield the hops of a kind at which packets vanish, and the links that deliver more than was sent into them."""
    if kind in _NICS and not is_resent(facts) and not (kind is HopKind.NIC_RX and _has_only_rdma(facts)):
        return
    for hop in vanishing(facts, kind):
        lost = hop.lost - probes.swept_to(facts, hop.place) if kind is HopKind.NIC_RX else hop.lost
        if kind is not HopKind.NIC_RX or lost >= _FEW:
            yield _located(facts, hop, PacketEffect.VANISH, lost, _VANISHES[kind])
    for hop in _counted_hops(facts, HopKind.LINK) if kind is HopKind.LINK else ():
        if hop.surplus > (0 if hop.gains else _QUIET):
            says = "packets arrive that were not sent into it"
            yield _located(facts, hop, PacketEffect.DUPLICATE, hop.surplus, says)


def _has_only_rdma(facts: WindowFacts) -> bool:
    """Return whether RDMA devices have sent all packets of lossless classes: then others receive all that arrive."""
    sending = {
        name for name, port in facts.ports.items()
        if port.host and any(facts.lane(name, number).tx_packets for number in facts.lossless(name))
    }  # fmt: skip
    made = [hop for hop in facts.hops if hop.kind in {HopKind.NIC_TX, HopKind.SWITCH}]
    known = {hop.place for hop in made if hop.kind is HopKind.NIC_TX}
    return sending <= known and not any(hop.surplus for hop in made)


def _located(facts: WindowFacts, hop: HopBalance, effect: PacketEffect, packets: int, says: str) -> Location:
    seen = Evidence(
        says=f"{says}, of {hop.entered}", of=hop.place, source=hop.kind.value, value=packets, at=facts.end
    )
    return Location(place=hop.place, effect=effect, packets=packets, of=hop.entered, evidence=seen)


def _drops(facts: WindowFacts) -> Iterator[Location]:
    """Yield the ports whose queues drop packets, with the reason."""
    for lane in facts.lanes.values():
        for reason, count in lane.drops.items():
            source = measures.drop_counter(reason).replace("{n}", str(lane.priority))
            seen = Evidence(says=f"dropped: {reason}", of=lane.port, source=source, value=count, at=facts.end)
            yield Location(place=lane.port, effect=PacketEffect.DROP, packets=count, of=lane.offered, evidence=seen)


def _held(facts: WindowFacts) -> Iterator[Location]:
    """Yield the ports that are paused all the time, with packets in their queue."""
    for lane in facts.lanes.values():
        if lane.paused > _FOREVER and lane.shallowest and not lane.tx_packets:
            source = measures.PAUSED.series(lane.priority)
            seen = Evidence(
                says="paused with packets in its queue", of=lane.port, source=source, value=lane.paused, at=facts.end
            )
            yield Location(place=lane.port, effect=PacketEffect.HOLD, packets=1, of=1, evidence=seen)


def _classes(facts: WindowFacts) -> Iterator[Location]:
    """Yield the links whose ends count packets in different classes."""
    for sender, receiver in mismatched(facts):
        moved = [
            (abs(facts.lane(receiver, number).rx_packets - facts.lane(sender, number).tx_packets), number)
            for number in range(8)
        ]
        count, number = max(moved)
        source = measures.RX_PACKETS.series(number)
        says = f"packets counted in another class than {sender} counts them in"
        seen = Evidence(says=says, of=receiver, source=source, value=count, at=facts.end)
        total = sum(facts.lane(sender, each).tx_packets for each in range(8))
        yield Location(
            place=f"{sender}--{receiver}", effect=PacketEffect.RECLASS, packets=count, of=total, evidence=seen
        )


def overtaken_acks(facts: WindowFacts) -> Iterator[Location]:
    """Yield the links that deliver more acknowledgements out of order than were sent into them.

    What a sender counts was overtaken before the link, also where paths merge. If it counts any, one more may be
    under way at either end of the window. A sender that counts no packets counts none of these.
    """
    uncounted = uncounted_ports(facts)
    for port in facts.ports.values():
        sender = facts.ports.get(port.peer)
        if not port.overtaken_acks_rx or sender is None or sender.name in uncounted:
            continue
        before = sender.overtaken_acks_tx or 0
        more = port.overtaken_acks_rx - before
        if more > min(1, before):
            says = f"acknowledgements received after a newer one of their queue pair; {sender.name} sent {before} so"
            seen = Evidence(
                says=says, of=port.name, source=measures.ACKS_OVERTAKEN_RX.series(None), value=port.overtaken_acks_rx,
                at=facts.end,
            )  # fmt: skip
            entered = sum(lane.tx_packets for lane in facts.by_port.get(sender.name, ()))
            yield Location(
                place=f"{sender.name}--{port.name}", effect=PacketEffect.REORDER, packets=more, of=entered,
                evidence=seen,
            )  # fmt: skip


def _out_of_order(facts: WindowFacts) -> Iterator[Location]:
    """Yield the link that holds packets, or else the NICs that miss packets although none vanished.

    Packets were overtaken, or came too late.
    """
    missed = {nic: count for nic, each in facts.devices.items() if (count := each.get("out_of_seq_request", 0))}
    if missed and (late := late_link(facts)) is not None:
        says = "packets out of sequence, and none vanished; packets stay on this link while others pass: a mean of"
        seen = Evidence(says=says, of=late.hop.place, source=late.hop.kind.value, value=round(late.hop.held, 2),
                        at=facts.end)  # fmt: skip
        yield Location(
            place=late.hop.place,
            effect=PacketEffect.REORDER,
            packets=sum(missed.values()),
            of=late.hop.entered,
            evidence=seen,
        )
        return
    for nic, count in missed.items():
        seen = Evidence(
            says="packets out of sequence, and none vanished on the way", of=nic, source="out_of_seq_request",
            value=count, at=facts.end,
        )  # fmt: skip
        received = facts.devices[nic].get("rcvd_pkts", 0)
        yield Location(place=nic, effect=PacketEffect.REORDER, packets=count, of=received, evidence=seen)
