"""Findings about loops of routers and switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, Loop

_EXAMPLES: Final = 10
_PAIR: Final = 2
"""Hops of a loop of two routers."""


def loop_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield one finding for all loops of routers and one for those of switches: they share a cause, most often.

    Those that are not certain have a finding of their own.
    """
    for switched, certain in ((False, True), (True, True), (True, False)):
        if found := [loop for loop in facts.loops if (loop.switched, loop.certain) == (switched, certain)]:
            yield _finding(found)


def _finding(loops: Sequence[Loop]) -> CaptureFinding:
    first, names = loops[0], tuple(map(_name, loops))
    whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
    packets = counted(sum(loop.packets for loop in loops), "packet")
    hops = f" of {first.hops} hops" if first.hops else ""
    each = f"with {'the same' if first.switched else 'a lower'} {_ttl(first)} each time"
    what = f"in a loop{hops}" if first.certain else "may be in a loop"
    return CaptureFinding(
        f"{whose}: {packets} {what}: PSN {first.psn} passed {_where(first)}, {each}",
        _meaning(first),
        count=len(names),
        examples=names[:_EXAMPLES],
        unjudged=not first.certain,
    )


def _ttl(loop: Loop) -> str:
    """Return the field that routers decrement: IPv6 calls it hop limit (RFC 8200 section 3)."""
    of_ipv6 = ":" in loop.src and (loop.inner or not loop.vnis)  # of a tunnel's outer header, the version is unknown
    return ("inner " if loop.inner else "") + ("hop limit" if of_ipv6 else "TTL")


def _meaning(loop: Loop) -> str:
    if not loop.certain:
        return (
            "a loop of switches; or, if the other direction took another path, retries or the answers to them:"
            " capture both directions"
        )
    if loop.switched:
        return "a loop of switches, which change no TTL: look for links in parallel and a spanning tree that is off"
    if loop.inner:
        return (
            f"a routing loop in the overlay: leaves or VRFs are each other's next hop to {loop.dst}; compare the"
            " routes of their VRFs"
        )
    if loop.hops == _PAIR:
        return f"a routing loop: the routers there are each other's next hop to {loop.dst}; compare their routes"
    routers = f"{loop.hops} routers" if loop.hops else "routers"
    return f"a routing loop: {routers} send packets to {loop.dst} in a circle; compare their routes"


def _name(loop: Loop) -> str:
    tunnel = f" in VNI{'s' * (len(loop.vnis) > 1)} {' and '.join(map(str, loop.vnis))}" if loop.vnis else ""
    return f"{loop.src} to {loop.dst} QP {loop.qp:#x}{tunnel}"


def _where(loop: Loop) -> str:
    """Return the link at which the packet turns, or else all links that it passes."""
    turning = [link for link in loop.links if link.turned]
    if turning and len(turning[0].macs) > 1:
        link = turning[0]
        ends = " and ".join(link.macs[:2])
        return f"{link.link} {counted(link.times, 'time')}, where {ends} send it back to each other"
    places = ", ".join(f"{link.link} {counted(link.times, 'time')}" for link in loop.links)
    return f"{places}, always from {loop.links[0].macs[0]}" if len(loop.links[0].macs) == 2 else places
