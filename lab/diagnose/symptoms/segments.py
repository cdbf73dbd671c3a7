"""Symptoms of Ethernet segments: the leaves of a bonded host compared with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.diagnose.symptom import Evidence, Sign
from lab.diagnose.symptoms.overlay_symptoms import odd_ones

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.facts import WindowFacts

Segments = dict[tuple[str, str], str]
"""By leaf and its bond: the identifier of the segment."""


def _hosts(facts: WindowFacts) -> dict[tuple[str, str], Segments]:
    """Return, by host and its bond, the segments at the leaves that its members are cabled to."""
    found: dict[tuple[str, str], Segments] = {}
    for port in facts.ports.values():
        peer = facts.ports.get(port.peer)
        leaf = facts.forwarding.get(port.node)
        if peer is None or leaf is None or not peer.host or peer.node not in facts.forwarding:
            continue
        bond = leaf.bonds.get(port.interface, "")
        theirs = facts.forwarding[peer.node].bonds.get(peer.interface, "")
        if theirs and bond in leaf.segments:
            found.setdefault((peer.node, theirs), {})[port.node, bond] = leaf.segments[bond]
    return found


def a_bond_has_two_segments(facts: WindowFacts) -> Iterator[Sign]:
    """The leaves of one bond have different identifiers for its segment.

    Signs name leaves of the minority whose segment number is not that of their bond's name, or else all of the
    minority.
    """
    for (host, theirs), segments in _hosts(facts).items():
        if len(set(segments.values())) < 2:
            continue
        odd = odd_ones(segments)
        guilty = [end for end in odd if not _has_its_number(end[1], segments[end])] or odd
        seen = _evidence(facts, f"{host}'s {theirs}", segments)
        for leaf, _ in guilty:
            yield Sign(leaf, seen, 0.9 if len(guilty) < len(segments) else 0.6)


def _has_its_number(bond: str, segment: str) -> bool:
    return bond.rstrip("0123456789") + segment.rsplit(maxsplit=1)[-1] == bond


def _evidence(facts: WindowFacts, whose: str, segments: Mapping[tuple[str, str], str]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            says=f"segment of {bond}, which connects {whose}: {segment}",
            of=leaf,
            source="show running-config",
            value=1,
            at=facts.end,
        )
        for (leaf, bond), segment in segments.items()
    )
