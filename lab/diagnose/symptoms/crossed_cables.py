"""Cables of a switch that are plugged into each other's port, as MAC addresses and counters show them.

LLDP reports the same directly (``rocelab lldp``), but no recording contains it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.diagnose.facts import PortFacts, WindowFacts

_FEW: Final = 3
"""Packets. A smaller difference between the two ends of a cable can be packets on their way."""
_MANY: Final = 20
"""Packets. As many that both ends of a cable count alike are not by chance."""


@dataclass(frozen=True, slots=True)
class CrossedCable:
    """A switch's port, and the other end of the cable in it, which the topology has in another port of the switch."""

    port: str
    other_end: str
    evidence: Evidence


def crossed_cables(facts: WindowFacts) -> tuple[CrossedCable, ...]:
    """Return the ports of switches whose cables are swapped, one entry for each port."""
    found: dict[str, CrossedCable] = {}
    for cable in (*_by_neighbours(facts), *_by_arp(facts), *_by_counters(facts)):
        found.setdefault(cable.port, cable)
    return tuple(found[port] for port in sorted(found))


def still_crossed(windows: Sequence[WindowFacts]) -> list[CrossedCable]:
    """Return the cables that are swapped in one of the windows, without those that are as planned later.

    A neighbour entry proves neither: the kernel keeps it for a while after a cable was moved.
    """
    crossed = {each.port: each for facts in windows for each in crossed_cables(facts)}
    planned: dict[str, float] = {}
    for port, at in (each for facts in windows for each in _as_planned(facts)):
        planned[port] = max(at, planned.get(port, at))
    return [each for port, each in crossed.items() if planned.get(port, each.evidence.at) <= each.evidence.at]


def _as_planned(facts: WindowFacts) -> Iterator[tuple[str, float]]:
    """Yield ports with the cable of the topology, and when: it answers ARP requests, or both ends count the same."""
    owners = _owners(facts)
    for each in facts.asked:
        if {owners.get(mac, "") for mac in each.macs} == {facts.peer(each.port)}:
            yield each.port, each.seconds
    for port in (each for node in facts.switches for each in facts.ports_of(node) if each.peer):
        if min(_counts(facts, port.name)) > _MANY and _agree(facts, port.name, port.peer):
            yield port.name, facts.end


def hosts_are_crossed(facts: WindowFacts) -> Iterator[Sign]:
    """The cable of a host is in another port of its switch than in the topology."""
    for cable in crossed_cables(facts):
        if facts.is_host(cable.other_end) or facts.is_host(facts.peer(cable.port)):
            yield Sign(cable.port, (cable.evidence,), 0.98)


def _by_neighbours(facts: WindowFacts) -> Iterator[CrossedCable]:
    """Yield cables whose two ends have the MAC of each other as a neighbour."""
    owners = _owners(facts)
    seen = {
        (f"{node}:{interface}", owners[mac]): address
        for node, stack in facts.stacks.items()
        for (interface, address), mac in stack.neighbours.items()
        if mac in owners
    }
    for (port, other), address in seen.items():
        if (other, port) in seen and _is_crossed(facts, port, other):
            says = f"its neighbour {address} has the MAC of {other}, whose cable belongs in {facts.peer(other)}"
            yield CrossedCable(port, other, Evidence(says=says, of=port, source="ip neigh", value=1, at=facts.end))


def _by_arp(facts: WindowFacts) -> Iterator[CrossedCable]:
    """Yield cables by whose port a NIC answers ARP requests, though the topology has it at another one."""
    owners = _owners(facts)
    for each in facts.asked:
        for other in (owners[mac] for mac in each.macs if len(each.macs) == 1 and mac in owners):
            if _is_crossed(facts, each.port, other) and _is_routed(facts, each.port):
                says = f"{other} answers ARP requests for {each.address} here, and its cable belongs in"
                says = f"{says} {facts.peer(other)}"
                yield CrossedCable(
                    each.port, other, Evidence(says=says, of=each.port, source="arp", value=1, at=each.seconds)
                )


def _by_counters(facts: WindowFacts) -> Iterator[CrossedCable]:
    """Yield cables whose planned ends count different packets, if the ends of two such cables match crosswise."""
    for node in facts.switches if not facts.plain else ():
        odd = [port for port in facts.ports_of(node) if port.peer and not _agree(facts, port.name, port.peer, _FEW)]
        for one, other in combinations(odd, 2):
            if _agree(facts, one.name, other.peer) and _agree(facts, other.name, one.peer):
                yield _counted(facts, one, other)
                yield _counted(facts, other, one)


def _counted(facts: WindowFacts, port: PortFacts, twin: PortFacts) -> CrossedCable:
    sent, arrived = _counts(facts, twin.peer)[0], _counts(facts, port.name)[1]
    says = f"received the {arrived} packets that {twin.peer} sent, whose cable belongs in {twin.name}"
    return CrossedCable(
        port.name, twin.peer, Evidence(says=says, of=port.name, source="rx_packets", value=sent, at=facts.end)
    )


def _agree(facts: WindowFacts, one: str, other: str, most: int = 1) -> bool:
    """Return whether two ports received what the other sent; fewer than ``most`` packets may be missing."""
    (sent, received), (answered, arrived) = _counts(facts, one), _counts(facts, other)
    return abs(sent - arrived) < most and abs(answered - received) < most


def _counts(facts: WindowFacts, port: str) -> tuple[int, int]:
    lanes = facts.by_port.get(port, ())
    return sum(lane.tx_packets for lane in lanes), sum(lane.rx_packets for lane in lanes)


def _is_crossed(facts: WindowFacts, port: str, other: str) -> bool:
    """Return whether the topology has the cable of ``other`` in another port of the switch than ``port``."""
    home, node = facts.peer(other), port.partition(":")[0]
    return node in facts.switches and home != port and home.partition(":")[0] == node and bool(facts.peer(port))


def _owners(facts: WindowFacts) -> Mapping[str, str]:
    """Return the cabled port that has each MAC, without MACs that several ports have."""
    pairs = [
        (mac, port.name)
        for port in facts.ports.values()
        if port.peer and (stack := facts.stacks.get(port.node)) and (mac := stack.macs.get(port.interface, ""))
    ]
    counts = Counter(mac for mac, _ in pairs)
    return {mac: port for mac, port in pairs if counts[mac] == 1}


def _is_routed(facts: WindowFacts, port: str) -> bool:
    node, _, interface = port.partition(":")
    stack = facts.stacks.get(node)
    return bool(stack and stack.networks.get(interface))
