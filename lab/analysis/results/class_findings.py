"""Check that RoCE is in the class that PFC protects, and keeps its DSCP and ECN along the path."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts, MarkedHop

_EXAMPLES: Final = 10
_SHIFT: Final = 3
"""By default, switches take the upper three bits of the DSCP as priority (RFC 2474 section 4.2.2)."""
_TRANSIT: Final = 0.01
_PART: Final = 0.1
"""Seconds from one link to the next, at most, and the share of a flow's time that this may be."""


_MEANINGS: Final = {
    "DSCP": "a switch rewrites it, or a tunnel does not inherit it: beyond that point RoCE is in another class",
    "ECT": "a switch clears ECN, or a tunnel does not inherit it: queues beyond that point drop instead of marking",
    "CE": "a switch clears the mark, or the end of a tunnel does not copy it: the receiver sends no CNP",
}


def class_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield flows outside the paused priorities, then DSCPs and ECN that change between links."""
    paused = {port.cls for port in facts.pauses if port.cls is not None and port.xoff}
    if paused:
        yield from _outside(facts, paused)
    yield from _changed(facts)
    yield from _cleared(facts)
    yield from _changed_at_hops(facts)


def priorities(flow: FlowFacts) -> set[int]:
    """Return the priorities of a flow: those of its DSCPs, and that of its VLAN tag."""
    found = {dscp >> _SHIFT for dscp in flow.dscps}
    return found if flow.pcp is None else found | {flow.pcp}


def _outside(facts: AnalysisFacts, paused: set[int]) -> Iterator[CaptureFinding]:
    outside: dict[tuple[int, ...], dict[str, int]] = defaultdict(dict)
    partly: dict[tuple[int, ...], list[str]] = defaultdict(list)
    inside = False
    for flow in facts.flows:
        if not flow.messages and not flow.payload:
            continue
        name = f"{flow.src} to {flow.dst} QP {flow.qp:#x} at {flow.link}"
        if priorities(flow) & paused:
            inside = True
            others = tuple(dscp for dscp in flow.dscps if dscp >> _SHIFT not in paused)
            if others and flow.pcp not in paused:
                partly[others].append(name)
        elif flow.dscps:
            outside[flow.dscps].setdefault(name, len(outside[flow.dscps]))
    classes = " and ".join(map(str, sorted(paused)))
    for dscps, flows in partly.items():
        whose = flows[0] if len(flows) == 1 else f"{len(flows)} flows, the first {flows[0]}"
        yield CaptureFinding(
            f"{whose}: in part DSCP {', '.join(map(str, dscps))}, usually priority {dscps[0] >> _SHIFT}, "
            f"while PFC pauses priority {classes}",
            "some packets or answers of the QP are outside of the lossless class: dissect --columns"
            " number,opcode,dscp lists them",
            note=True,
            count=len(flows),
            examples=tuple(flows)[:_EXAMPLES],
        )
    for dscps, names in outside.items():
        priority = dscps[0] >> _SHIFT
        first = next(iter(names))
        whose = first if len(names) == 1 else f"{len(names)} flows, the first {first}"
        yield CaptureFinding(
            f"{whose}: DSCP {', '.join(map(str, dscps))}, usually priority {priority}, "
            f"while PFC pauses priority {classes}",
            "RoCE outside of the lossless class is dropped under congestion: set the traffic class (NCCL_IB_TC,"
            " ib_write_bw --tclass), or the map from DSCP to priority",
            # With other RoCE in the paused class, this may be a second lossless class.
            note=inside and priority > 0,
            count=len(names),
            examples=tuple(names)[:_EXAMPLES],
        )


def _changed(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield changes of DSCP along the path: a switch or tunnel that rewrites it changes the class of packets."""
    changes: dict[tuple[str, str, int, int], list[str]] = defaultdict(list)
    for path in facts.paths:
        for before, after in zip(path.hops, path.hops[1:], strict=False):
            if before.dscp is not None and after.dscp is not None and before.dscp != after.dscp:
                where = (before.link, after.link, before.dscp, after.dscp)
                changes[where].append(f"{path.src} to {path.dst} QP {path.qp:#x}")
    for (before_link, after_link, old, new), names in changes.items():
        whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
        yield CaptureFinding(
            f"{whose}: DSCP {old} at {before_link} and {new} at {after_link}",
            _MEANINGS["DSCP"],
            count=len(names),
            examples=tuple(names)[:_EXAMPLES],
        )


def _cleared(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield ECT that becomes not-ECT along the path, and CE that is not there further on (RFC 3168 section 5).

    Not between links that a flow in the opposite direction passes in the same order: their clocks differ.
    """
    changes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    parallel = [frozenset(each.bytes) for each in facts.spread]
    steps = {
        (path.src, path.dst, before.link, after.link)
        for path in facts.paths
        for before, after in _steps(path.hops, parallel)
    }
    for path in facts.paths:
        for before, after in _steps(path.hops, parallel):
            what = _loses(before, after)
            if what and (path.dst, path.src, before.link, after.link) not in steps:
                changes[what, before.link, after.link].append(f"{path.src} to {path.dst} QP {path.qp:#x}")
    for (what, before_link, after_link), names in changes.items():
        whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
        yield CaptureFinding(
            f"{whose}: {what} at {before_link}, and not at {after_link}",
            _MEANINGS[what],
            count=len(names),
            examples=tuple(names)[:_EXAMPLES],
        )


def _changed_at_hops(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield what hops change, in a file with one link that has each packet several times."""
    changes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for change in facts.class_changes:
        what = f"DSCP {change.old}" if change.what == "DSCP" else change.what
        then = f"{change.new}" if change.what == "DSCP" else "not"
        where = f"{what} at TTL {change.before}, and {then} at TTL {change.after}"
        changes[change.what, where].append(f"{change.src} to {change.dst} QP {change.qp:#x} at {change.link}")
    for (what, where), names in changes.items():
        whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
        yield CaptureFinding(
            f"{whose}: {where}", _MEANINGS[what], count=len(names), examples=tuple(names)[:_EXAMPLES]
        )


def _steps(hops: Sequence[MarkedHop], parallel: Sequence[frozenset[str]]) -> Iterator[tuple[MarkedHop, MarkedHop]]:
    """Yield each hop with the last one before it that is on no parallel link: packets pass one of those."""
    for place, after in enumerate(hops):
        beside = [links for links in parallel if after.link in links]
        earlier = (each for each in reversed(hops[:place]) if not any(each.link in links for links in beside))
        if (before := next(earlier, None)) is not None:
            yield before, after


def _loses(before: MarkedHop, after: MarkedHop) -> str:
    """Return what of ECN all packets of a flow lose between two links: "ECT", "CE" or nothing.

    Marks are compared if both links captured the flow at the same time, and more packets were marked than lost. CNPs
    alone, which have no DSCP here, say nothing: they may take another path, and need not be ECN-capable.
    """
    if after.dscp is None or after.first > before.last + _TRANSIT:
        return ""
    if before.ect == before.packets and not after.ect:
        return "ECT"
    tolerance = min(_TRANSIT, _PART * (before.last - before.first))
    together = max(abs(after.first - before.first), abs(after.last - before.last)) <= tolerance
    if together and before.marked > max(0, before.packets - after.packets) and not after.marked:
        return "CE"
    return ""
