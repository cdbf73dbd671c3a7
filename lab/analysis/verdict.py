"""What looks wrong in the facts, in an order that puts causes of doubt first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lab.analysis.facts import Finding
from lab.analysis.opcode_tables import ACKS, RNR, SEQUENCE_ERROR
from lab.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.facts import Facts, Flow

PAUSED_SHARE: Final = 0.1
"""Of the capture's duration: being paused longer than this is no longer smoothing."""
UNEVEN: Final = 0.8
"""Jain's index below which a spread is called uneven; one of two links idle gives 0.5."""
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


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Everything that looks wrong; none is an answer, too."""
    return (
        *_file(facts),
        *(finding for flow in facts.flows for finding in _flow(flow)),
        *_unanswered_marks(facts),
        *_pauses(facts),
        *_spread(facts),
    )


def name(flow: Flow) -> str:
    """A flow in words: who to whom, and where it was seen."""
    tunnel = "" if flow.vni is None else f" in VNI {flow.vni}"
    return f"{flow.src} to {flow.dst} QP {flow.qp:#x}{tunnel} at {flow.link}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _file(facts: Facts) -> Iterator[Finding]:
    if facts.damage_count:
        first = facts.damages[0]
        more = f", and {facts.damage_count - 1} more" if facts.damage_count > 1 else ""
        yield Finding(f"{first.place} {first.what}{more}", "the file or the sender is damaged; the rest was analysed")
    for link, dropped in facts.dropped.items():
        yield Finding(f"{link}: {dropped} packets were lost while capturing", "gaps there may not be the network's")
    if facts.untracked:
        yield Finding(
            f"{facts.untracked} packets belong to more flows than are told apart", "an attack, or a damaged file"
        )


def _flow(flow: Flow) -> Iterator[Finding]:
    where = name(flow)
    if flow.go_back_n:
        yield Finding(
            f"{where}: went back {_count(flow.go_back_n, 'time')} and sent {_count(flow.resent, 'packet')} again",
            "packets or their ACKs were lost or reordered",
        )
    if flow.repeats:
        yield Finding(
            f"{where}: {_count(flow.repeats, 'lost packet')} sent again alone, as a NAK asked for",
            "packets were lost on the way to the responder, which keeps what came behind them (selective repeat)",
        )
    if flow.missing > flow.unseen:
        yield Finding(
            f"{where}: {_count(flow.missing - flow.unseen, 'PSN')} missing in {_count(flow.gaps, 'gap')}",
            "they were lost or overtaken before this place",
        )
    if flow.unseen:
        yield Finding(f"{where}: {_count(flow.unseen, 'PSN')} acknowledged but not captured", "the capture lost them")
    if flow.late:
        yield Finding(f"{where}: {_count(flow.late, 'packet')} came late", "the path reorders: RC answers with NAKs")
    if flow.response_gaps:
        yield Finding(
            f"{where}: READ responses are missing in {_count(flow.response_gaps, 'place')}",
            "they were lost before here",
        )
    for kind, count in flow.answers.items():
        if kind in _MEANINGS:
            yield Finding(f"{where}: {_count(count, 'answer')} said {kind}", _MEANINGS[kind])


def _unanswered_marks(facts: Facts) -> Iterator[Finding]:
    """Marked packets and no CNP anywhere back: the receiver does not take part in DCQCN."""
    cnps = Counter[tuple[str, str, int | None]]()
    for flow in facts.flows:
        cnps[flow.src, flow.dst, flow.vni] += flow.cnps
    links_with_answers = {(flow.link, flow.src, flow.dst) for flow in facts.flows}
    for flow in facts.flows:
        heard = (flow.link, flow.dst, flow.src) in links_with_answers
        if flow.marked and heard and not cnps[flow.dst, flow.src, flow.vni]:
            yield Finding(
                f"{name(flow)}: {_count(flow.marked, 'packet')} marked CE, no CNP answered",
                "the receiver does not slow its sender",
            )


def _pauses(facts: Facts) -> Iterator[Finding]:
    for port in facts.pauses:
        if port.share is not None and port.paused is not None and port.share > PAUSED_SHARE:
            what = "all classes" if port.cls is None else f"class {port.cls}"
            yield Finding(
                f"{port.link}: {what} paused for {format_time(port.paused)}, {port.share:.0%} of the capture",
                "congestion further on, or a receiver that stopped reading",
            )


def _spread(facts: Facts) -> Iterator[Finding]:
    for group in facts.spread:
        if group.jain < UNEVEN and sum(group.flows.values()) >= _LEAST_FLOWS:
            yield Finding(
                f"{', '.join(group.bytes)}: uneven spread, Jain index {group.jain:.2f}",
                "too little entropy for ECMP: few source ports, or every switch hashes alike",
            )
