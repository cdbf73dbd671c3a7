"""Which connections a queue pair belongs to: its number alone does not tell, because every host counts its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

_Partners: TypeAlias = "dict[tuple[str, str, int], set[int]]"
"""By the two hosts and the QP of the second one: those of the first one that talk to it."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection: an IP address, and its queue pair, None where it is not known."""

    host: str
    qp: int | None

    def __str__(self) -> str:
        return f"{self.host} QP {'?' if self.qp is None else hex(self.qp)}"


@dataclass(frozen=True, slots=True)
class Connection:
    """``left`` asks and ``right`` answers. ``links`` saw it, the first one first.

    ``there`` and ``back`` are the links on which its packets of each direction are looked at; the same one, where it
    saw both.
    """

    left: End
    right: End
    there: str
    back: str
    links: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.left} and {self.right}"


def connections(facts: AnalysisFacts, qp: int, host: str | None = None) -> list[Connection]:
    """Those with a queue pair ``qp``, of ``host`` if one is named; in the order in which the capture has them."""
    partners = _partners(facts)
    found: dict[frozenset[End], list[tuple[tuple[End, End], FlowFacts]]] = {}
    for flow in facts.flows:
        if flow.qp == qp and host in {None, flow.dst}:
            found.setdefault(frozenset(_ends(flow, partners)), [])
    for flow in facts.flows:
        ends = _ends(flow, partners)
        found.get(frozenset(ends), []).append((ends, flow))
    return [_connection(flows) for flows in found.values()]


def _partners(facts: AnalysisFacts) -> _Partners:
    found: _Partners = {}
    for flow in facts.flows:
        if flow.peer is not None:
            found.setdefault((flow.src, flow.dst, flow.qp), set()).add(flow.peer)
            found.setdefault((flow.dst, flow.src, flow.peer), set()).add(flow.qp)
    return found


def _ends(flow: FlowFacts, partners: _Partners) -> tuple[End, End]:
    """From where to where. A link that saw one direction only, in a tunnel, is told by the others who the peer is."""
    known = partners.get((flow.src, flow.dst, flow.qp), set())
    peer = next(iter(known)) if flow.peer is None and len(known) == 1 else flow.peer
    return End(flow.src, peer), End(flow.dst, flow.qp)


def _connection(flows: list[tuple[tuple[End, End], FlowFacts]]) -> Connection:
    left, right = next((ends for ends, flow in flows if flow.messages), flows[0][0])
    there = [flow.link for ends, flow in flows if ends == (left, right)]
    back = [flow.link for ends, flow in flows if ends == (right, left)] or there[:1]
    both = [link for link in there if link in back]
    links = tuple(dict.fromkeys(flow.link for _, flow in flows))
    return Connection(left, right, *((both[0], both[0]) if both else (there[0], back[0])), links)
