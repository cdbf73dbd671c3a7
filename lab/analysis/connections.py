"""Which connections a queue pair belongs to: its number alone does not tell, because every host counts its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.analysis.facts import Facts, Flow


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


def connections(facts: Facts, qp: int, host: str | None = None) -> list[Connection]:
    """Those with a queue pair ``qp``, of ``host`` if one is named; in the order in which the capture has them."""
    found: dict[frozenset[End], list[Flow]] = {}
    for flow in facts.flows:
        if flow.qp == qp and host in {None, flow.dst}:
            found.setdefault(frozenset(_ends(flow)), [])
    for flow in facts.flows:
        found.get(frozenset(_ends(flow)), []).append(flow)
    return [_connection(flows) for flows in found.values()]


def _ends(flow: Flow) -> tuple[End, End]:
    return End(flow.src, flow.peer), End(flow.dst, flow.qp)


def _connection(flows: list[Flow]) -> Connection:
    asking = next((flow for flow in flows if flow.messages), flows[0])
    left, right = _ends(asking)
    back = [flow.link for flow in flows if _ends(flow) == (right, left)] or [asking.link]
    there = [flow.link for flow in flows if _ends(flow) == (left, right)]
    both = [link for link in there if link in back]
    links = tuple(dict.fromkeys(flow.link for flow in flows))
    return Connection(left, right, *((both[0], both[0]) if both else (there[0], back[0])), links)
