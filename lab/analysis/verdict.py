"""What looks wrong in the facts, in an order that puts causes of doubt first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.analysis.facts import Finding
from lab.analysis.opcode_tables import ACKS, RNR, SEQUENCE_ERROR
from lab.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from lab.analysis.facts import Facts, Flow, PausedPort

PAUSED_SHARE: Final = 0.1
"""Of the capture's duration: being paused longer than this is no longer smoothing."""
UNEVEN: Final = 0.8
"""Jain's index below which a spread is called uneven; one of two links idle gives 0.5."""
_CONNECTED: Final = ("RC", "XRC")
_EXAMPLES: Final = 10
_LEAST_FLOWS: Final = 8  # per spread: fewer flows cannot be expected to spread evenly

_MEANINGS: Final = {
    ACKS[RNR]: "the responder had no receive posted: it is slow, or posts too few",
    ACKS[SEQUENCE_ERROR]: "packets were lost or reordered on the way to the responder",
    ACKS[3]: "the responder does not support or expect the request",
    ACKS[4]: "wrong rkey, address or permission",
    ACKS[5]: "the responder failed while it executed the request",
    ACKS[6]: "the reliable datagram context is wrong",
    ACKS[7]: "no such syndrome exists",
}


class _Sign(NamedTuple):
    """A kind of trouble: its meaning, counts that add up over flows (the first tells whether), and its words."""

    meaning: str
    counts: Callable[[Flow], tuple[int, ...]]
    words: Callable[..., str]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _said(kind: str, meaning: str) -> _Sign:
    return _Sign(
        meaning,
        lambda flow: (flow.answers.get(kind, 0),),
        lambda count: f"{_count(count, 'answer')} said {kind}",
    )


_SIGNS: Final = (
    _Sign(
        "packets or their ACKs were lost or reordered",
        lambda flow: (flow.go_back_n, flow.resent - flow.repeats),
        lambda times, again: f"{_count(times, 'go-back-N episode')}, {_count(again, 'packet')} retransmitted",
    ),
    _Sign(
        "packets were lost on the way to the responder, which keeps what came behind them (selective repeat)",
        lambda flow: (flow.repeats,),
        lambda times: f"{_count(times, 'lost packet')} retransmitted alone, as a NAK asked for",
    ),
    _Sign(
        "they were lost or overtaken before this place",
        lambda flow: (max(0, flow.missing - flow.unseen), flow.gaps),
        lambda missing, gaps: f"{_count(missing, 'PSN')} missing in {_count(gaps, 'gap')}",
    ),
    _Sign(
        "the capture lost them",
        lambda flow: (flow.unseen,),
        lambda unseen: f"{_count(unseen, 'PSN')} ACKed unseen: acknowledged but not captured",
    ),
    _Sign(
        "the path reorders: RC answers with NAKs",
        lambda flow: (flow.late,),
        lambda late: f"{_count(late, 'packet')} out-of-order",
    ),
    _Sign(
        "they were lost before here",
        lambda flow: (flow.response_gaps,),
        lambda gaps: f"READ responses are missing in {_count(gaps, 'place')}",
    ),
    *(_said(kind, meaning) for kind, meaning in _MEANINGS.items()),
)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Everything that looks wrong; none is an answer, too. What many flows or links show alike is one finding."""
    return (
        *_file(facts),
        *(finding for sign in _SIGNS for finding in _signs(facts, sign)),
        *_unanswered_marks(facts),
        *_pauses(facts),
        *_spread(facts),
    )


def _signs(facts: Facts, sign: _Sign) -> Iterator[Finding]:
    streams = _streams(flow for flow in facts.flows if sign.counts(flow)[0])
    if not streams:
        return
    most = [max(sign.counts(flow) for flow in flows) for flows in streams]
    totals = (sum(counts) for counts in zip(*most, strict=True))
    yield _of_flows(streams, sign.words(*totals), sign.meaning)


def _streams(flows: Iterable[Flow]) -> list[list[Flow]]:
    """Flows of one stream, which several links saw, together."""
    found: dict[tuple[object, ...], list[Flow]] = {}
    for flow in flows:
        found.setdefault((flow.vni, flow.src, flow.dst, flow.qp, flow.transport), []).append(flow)
    return list(found.values())


def _of_flows(streams: Sequence[Sequence[Flow]], what: str, meaning: str, *, note: bool = False) -> Finding:
    """What streams have in common, each by its name and how many more links saw it."""
    names = [name(flows[0]) + (f" and {_count(len(flows) - 1, 'more link')}" * (len(flows) > 1)) for flows in streams]
    whose = names[0] if len(streams) == 1 else f"{len(streams)} flows, the first {name(streams[0][0])}"
    return Finding(f"{whose}: {what}", meaning, note, len(streams), tuple(names[:_EXAMPLES]))


def name(flow: Flow) -> str:
    """A flow in words: who to whom, and where it was seen."""
    tunnel = "" if flow.vni is None else f" in VNI {flow.vni}"
    return f"{flow.src} to {flow.dst} QP {flow.qp:#x}{tunnel} at {flow.link}"


def _file(facts: Facts) -> Iterator[Finding]:
    if facts.damage_count:
        first = facts.damages[0]
        more = f", and {facts.damage_count - 1} more" if facts.damage_count > 1 else ""
        yield Finding(
            f"{first.place} {first.what}{more}",
            "the file or the sender is damaged; the rest was analysed",
            count=facts.damage_count,
            examples=tuple(f"{damage.place} {damage.what}" for damage in facts.damages[:_EXAMPLES]),
        )
    if facts.dropped:
        lost = f"{_count(sum(facts.dropped.values()), 'packet')} lost while capturing"
        yield _of_links(facts.dropped, lost, "gaps there may not be the network's")
    if facts.short:
        yield Finding(
            f"{_count(facts.short, 'packet')} shorter than the IP header says: what is there was analysed",
            "a mirror cut them before their length was written",
            note=True,
            count=facts.short,
        )
    if facts.rocev1:
        yield Finding(
            f"{_count(facts.rocev1, 'packet')} of RoCEv1, which no router forwards and no UDP port tells to ECMP",
            "the GID index that the program uses is one of type RoCE v1: take one of type RoCE v2 (show_gids, "
            "NCCL_IB_GID_INDEX, ib_write_bw -x)",
            note=True,
        )
    if facts.copies_alike:
        yield Finding(
            f"{_count(facts.copies_alike, 'packet')} in the file twice, alike in every header: each is counted once",
            "the mirror shows both what came into a switch and what left it",
            note=True,
        )
    if copies := sum(flow.copies for flow in facts.flows) - facts.copies_alike:
        yield Finding(
            f"{_count(copies, 'packet')} in the file twice, one hop apart: each is counted once",
            "the mirror shows what came into a router and what left it",
            note=True,
            count=copies,
        )
    if facts.untracked:
        yield Finding(
            f"{facts.untracked} packets belong to more flows than are told apart",
            "an attack, or a damaged file",
            count=facts.untracked,
        )


def _of_links(links: Collection[str], what: str, meaning: str) -> Finding:
    """What links have in common, the worst first."""
    names = tuple(links)
    where = names[0] if len(names) == 1 else f"{len(names)} links, the first {names[0]}"
    return Finding(f"{where}: {what}", meaning, count=len(names), examples=names[:_EXAMPLES])


def _unanswered_marks(facts: Facts) -> Iterator[Finding]:
    """Marked packets and no CNP anywhere back: the receiver does not take part in DCQCN, or is SoftRoCE.

    CNPs answer connections (IBA vol. 1 annex A17.9.3), so that datagrams may come marked without one.
    """
    cnps = Counter[tuple[str, str, int | None]]()
    for flow in facts.flows:
        cnps[flow.src, flow.dst, flow.vni] += flow.cnps
    answering = {(flow.src, flow.dst) for flow in facts.flows}
    silent = _streams(
        flow
        for flow in facts.flows
        if flow.marked
        and flow.transport in _CONNECTED
        and (flow.dst, flow.src) in answering
        and not cnps[flow.dst, flow.src, flow.vni]
    )
    if silent:
        marked = sum(max(flow.marked for flow in flows) for flows in silent)
        meaning = (
            "SoftRoCE sends no CNPs, so that ECN slows nobody here; a NIC would"
            if facts.emulated
            else "the receiver does not slow its sender"
        )
        what = f"{_count(marked, 'packet')} marked CE, no CNP answered"
        yield _of_flows(silent, what, meaning, note=facts.emulated)


def _pauses(facts: Facts) -> Iterator[Finding]:
    """By class: the longest pause first, and in how many places there were such."""
    by_class: dict[int | None, dict[str, PausedPort]] = {}
    for port in sorted(facts.pauses, key=lambda port: -(port.share or 0)):
        if port.share is not None and port.share > PAUSED_SHARE:
            place = port.link if port.direction else f"{port.link}, from {port.sender}"
            by_class.setdefault(port.cls, {}).setdefault(place, port)
    for cls, ports in by_class.items():
        worst = next(iter(ports.values()))
        what = "all classes" if cls is None else f"priority {cls}"
        up_to = "up to " if len(ports) > 1 else ""
        yield _of_links(
            ports,
            f"{what} paused for {up_to}{format_time(worst.paused or 0)}, {worst.share:.0%} of the capture",
            "congestion further on, or a receiver that stopped reading",
        )


def _spread(facts: Facts) -> Iterator[Finding]:
    uneven = [group for group in facts.spread if group.jain < UNEVEN and sum(group.flows.values()) >= _LEAST_FLOWS]
    uneven.sort(key=lambda group: group.jain)
    if uneven:
        names = [", ".join(group.bytes) for group in uneven]
        where = names[0] if len(names) == 1 else f"{len(names)} groups of parallel links, the worst {names[0]}"
        yield Finding(
            f"{where}: uneven spread, Jain index {uneven[0].jain:.2f}",
            "too little entropy for ECMP: few source ports, or every switch hashes alike",
            count=len(names),
            examples=tuple(names[:_EXAMPLES]),
        )
