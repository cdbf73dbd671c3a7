"""Symptoms of conservation: packets vanish inside a switch or a host, or a link delivers packets twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.conservation.locations import (
    PacketEffect,
    at_hops,
    locate,
    overtaken_acks,
    uncounted_ports,
)
from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_WEIGHT: Final = 0.7
"""The place is certain, the reason is not: a filter, a route, a neighbour entry, or a defect."""
_COUNTED: Final = 0.95
"""Both ends of the link count what the fault does."""
_UNCOUNTED: Final = 0.75
"""The port has other queues, or none that count: what that does to packets is not known."""


def vanishes_in_a_switch(facts: WindowFacts) -> Iterator[Sign]:
    """Packets enter a switch that neither leave it, wait in it, nor are counted as dropped."""
    return _signs(facts, PacketEffect.VANISH, HopKind.SWITCH)


def vanishes_behind_a_nic(facts: WindowFacts) -> Iterator[Sign]:
    """Packets arrive at a NIC but not at its RDMA device."""
    return _signs(facts, PacketEffect.VANISH, HopKind.NIC_RX)


def vanishes_before_a_nic(facts: WindowFacts) -> Iterator[Sign]:
    """An RDMA device sends packets that do not leave its NIC."""
    return _signs(facts, PacketEffect.VANISH, HopKind.NIC_TX)


def arrives_twice(facts: WindowFacts) -> Iterator[Sign]:
    """More packets leave a link than were sent into it."""
    return _signs(facts, PacketEffect.DUPLICATE, HopKind.LINK)


def counts_nothing(facts: WindowFacts) -> Iterator[Sign]:
    """A port counts neither sent nor received packets, and its peer receives packets from it."""
    for port, came in uncounted_ports(facts).items():
        peer = facts.peer(port)
        none = Evidence(says="packets that it counts", of=port, source="tx_prioN_packets", value=0, at=facts.end)
        says = f"packets received from {port}"
        seen = Evidence(says=says, of=peer, source="rx_prioN_packets", value=came, at=facts.end)
        yield Sign(port, (none, seen), _UNCOUNTED)


def overtakes(facts: WindowFacts) -> Iterator[Sign]:
    """RDMA devices miss packets although none vanishes, and one link holds packets while others pass."""
    for each in locate(facts):
        if each.effect is PacketEffect.REORDER and each.evidence.source == HopKind.LINK:
            yield Sign(each.place, (each.evidence,), _WEIGHT)


def acknowledgements_are_overtaken(facts: WindowFacts) -> Iterator[Sign]:
    """A link delivers more acknowledgements out of order than were sent into it."""
    for each in overtaken_acks(facts):
        yield Sign(each.place, (each.evidence,), _COUNTED)


def not_conserved(facts: WindowFacts) -> Iterator[Sign]:
    """Packets vanish or are duplicated at any hop, whatever the reason."""
    for each in locate(facts):
        if each.effect in {PacketEffect.VANISH, PacketEffect.DUPLICATE}:
            yield Sign(each.place, (each.evidence,))


def _signs(facts: WindowFacts, effect: PacketEffect, kind: HopKind) -> Iterator[Sign]:
    for each in sorted(at_hops(facts, kind), key=lambda each: -each.share):
        if each.effect is effect:
            yield Sign(each.place, (each.evidence,), _WEIGHT)
