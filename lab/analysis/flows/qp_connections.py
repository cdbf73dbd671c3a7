"""Find the connections of a queue pair. Its number is not enough, because QP numbers are only unique per host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

_Partners: TypeAlias = "dict[tuple[str, str, int], set[int]]"
"""Key: two hosts, and a QP of the second one. Value: the QPs of the first host that talk to it."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection: an IP address, and its queue pair, or None if that is unknown."""

    host: str
    qp: int | None

    def __str__(self) -> str:
        return f"{self.host} QP {'?' if self.qp is None else hex(self.qp)}"


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection between a requester, ``left``, and a responder, ``right``. ``links`` are in the order of the path.

    ``there`` and ``back`` are the links at which the packets of each direction are read: one link if it captured
    both.
    """

    left: End
    right: End
    there: str
    back: str
    links: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.left} and {self.right}"


def connections(facts: AnalysisFacts, qp: int, host: str | None = None) -> list[Connection]:
    """Return the connections of QP ``qp``, of ``host`` if one is given, in the order of the capture."""
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
    """Return source and destination. A link with one direction gets its peer QP from links with both."""
    known = partners.get((flow.src, flow.dst, flow.qp), set())
    peer = next(iter(known)) if flow.peer is None and len(known) == 1 else flow.peer
    return End(flow.src, peer), End(flow.dst, flow.qp)


def _connection(flows: list[tuple[tuple[End, End], FlowFacts]]) -> Connection:
    left, right = next((ends for ends, flow in flows if flow.messages), flows[0][0])
    there = [flow.link for ends, flow in flows if ends == (left, right)]
    back = [flow.link for ends, flow in flows if ends == (right, left)] or there[:1]
    both = [link for link in there if link in back]
    links = tuple(dict.fromkeys(flow.link for _, flow in flows))
    one, other = (both[0], both[0]) if both else (there[0], back[0])
    return Connection(left=left, right=right, there=one, back=other, links=links)
