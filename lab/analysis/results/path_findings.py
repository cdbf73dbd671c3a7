"""Findings about paths: MTUs that are too small, ICMP errors, and wrong ICRCs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding
from lab.analysis.results.number_format import mac
from lab.units import counted
from lab.wire.mad import REJECT_REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, IcmpError, SizeLoss
    from lab.analysis.results.icrc_facts import IcrcHop

WRONG_ICRC: Final = "has a wrong ICRC"
_ALL: Final = 8
"""A flow with at least this many ICRCs, all wrong, suggests a faulty sender or an edited file."""
_EXAMPLES: Final = 10
_REJECTED: Final = {
    1: "the host has no QP left: look for programs that keep their QPs",
    8: "no program listens there: start it, or correct its port",
    10: "the host still knows an earlier connection of this QP: the requester began anew; it may try again",
    26: "the path MTU of the request is larger than that of the port there: set one MTU everywhere",
    28: "the program there refused the connection: look at its log",
}
"""The remedy for a rejected connection, by reason."""
_MEANINGS: Final = {
    "port unreachable": "UDP port 4791 is closed there: no RDMA device is up, or the address is wrong",
    "host unreachable": "the router cannot resolve that address: the host is down, or its ARP or ND fails",
    "network unreachable": "the router has no route there",
    "prohibited": "an access list rejects it",
    "fragmentation needed": "a link behind this router has an MTU smaller than the packets",
    "time exceeded": "the TTL expired on the way: a routing loop, or a TTL that is too small",
}


def path_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield losses by size, then ICMP errors, connection requests without an answer, rejected ones, and ICRCs."""
    yield from _sizes(facts)
    yield from _icmp(facts)
    yield from _requests(facts)
    yield from _rejections(facts)
    yield from _icrcs(facts)


def _sizes(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    for reads in (False, True):
        if losses := [loss for loss in facts.size_losses if loss.reads == reads]:
            yield _size_finding(losses)


def _size_finding(losses: Sequence[SizeLoss]) -> CaptureFinding:
    first = losses[0]
    names = tuple(dict.fromkeys(f"{loss.src} to {loss.dst} QP {loss.qp:#x} at {loss.link}" for loss in losses))
    whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
    what = "responses to READs" if first.reads else "frames"
    arrives = f"those of up to {first.delivered} bytes arrive" if first.delivered else "ACKs arrive"
    return CaptureFinding(
        f"{whose}: {counted(first.losses, 'loss', 'losses')}, all of {what} of {first.least} bytes or more, "
        f"while {arrives}",
        "a link or tunnel on the path"
        f"{' back to the requester' if first.reads else ''} has an MTU that is too small for the QP's path MTU",
        count=len(names),
        examples=names[:_EXAMPLES],
    )


def _icmp(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    groups: dict[tuple[str, str], list[IcmpError]] = defaultdict(list)
    for error in facts.icmp_errors:
        groups[error.kind, error.what].append(error)
    for (kind, what), errors in groups.items():
        first = errors[0]
        names = tuple(dict.fromkeys(f"{e.sender}, of {e.src} to {e.dst}" for e in errors))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        mtus = sorted({error.mtu for error in errors if error.mtu})
        mtu = f", MTU {mtus[0]}" if mtus else ""
        yield CaptureFinding(
            f"{counted(sum(error.packets for error in errors), 'ICMP report')} of {kind}{mtu}, about {what} "
            f"from {first.src} to {first.dst}, by {first.sender}{more}",
            _MEANINGS[kind],
            count=len(names),
            examples=names[:_EXAMPLES],
        )


def _requests(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    if not facts.unanswered_requests:
        return
    first = facts.unanswered_requests[0]
    names = tuple(
        dict.fromkeys(
            f"{each.src} to {each.dst}{'' if each.vni is None else f' in VNI {each.vni}'} at {each.link}"
            for each in facts.unanswered_requests
        )
    )
    more = "" if len(names) == 1 else f", and {len(names) - 1} more"
    yield CaptureFinding(
        f"{names[0]}{more}: a connection request (CM REQ) was sent {first.times} times without an answer",
        "the connection manager there does not receive it, or its answers are lost: the address is wrong, the host "
        "or its RDMA device is down, or a filter drops UDP 4791",
        count=len(names),
        examples=names[:_EXAMPLES],
    )


def _rejections(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield a finding for each reason for which connections were rejected."""
    reasons = dict.fromkeys(each.reason for each in facts.rejected_connections)
    for reason in reasons:
        found = [each for each in facts.rejected_connections if each.reason == reason]
        names = tuple(f"{each.src} rejects connections of {each.dst} at {each.link}" for each in found)
        more = "" if len(names) == 1 else f", and {len(names) - 1} more"
        yield CaptureFinding(
            f"{names[0]}{more}: {REJECT_REASONS.get(reason, 'reserved reason')} (CM REJ, reason {reason}), "
            f"{counted(sum(each.times for each in found), 'time')}",
            _REJECTED.get(reason, "the connection manager there does not accept the request as it is"),
            count=len(names),
            examples=names[:_EXAMPLES],
        )


def _hop(hop: IcrcHop) -> str:
    """Name a hop by what a file with one link says of it. Packets of raw IP have no MAC address."""
    sender = "" if hop.sender == mac(0) else f", sent by {hop.sender}"
    return f"between TTL {hop.before} and TTL {hop.ttl}{sender}"


def _icrcs(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield wrong ICRCs. Receivers drop such packets without a NAK, as their flow cannot be trusted."""
    if not facts.icrc.wrong:
        return
    first = next((damage.place for damage in facts.damages if damage.what == WRONG_ICRC), "a packet")
    more = f", and {facts.icrc.wrong - 1} more" if facts.icrc.wrong > 1 else ""
    more += "" if facts.icrc.every else f" ({counted(facts.icrc.right + facts.icrc.wrong, 'packet')} checked)"
    errors = facts.icrc_errors
    names = tuple(f"{error.src} to {error.dst} QP {error.qp:#x} at {error.link}" for error in errors)
    firsts = {(error.src, error.dst, error.qp): error for error in reversed(errors)}.values()
    between = sorted({f"between {error.after} and {error.link}" for error in firsts if error.after is not None})
    between = between or sorted({_hop(hop) for error in errors for hop in error.hops})
    if between:
        meaning = f"a cable, port or switch changed the packets {', '.join(between)}: they were correct before"
    elif errors and all(error.wrong == error.checked >= _ALL for error in errors):
        meaning = "every packet of these flows is wrong: the sender miscalculates the ICRC, or the file was edited"
    else:
        meaning = (
            "changed by a cable, port or switch before the capture point, by the sender, or in the file; capture at"
            " several links to locate it"
        )
        meaning += "" if facts.icrc.every else ", and check every packet: --icrc"
    yield CaptureFinding(
        f"{first} {WRONG_ICRC}{more}",
        f"{meaning}. Receivers drop them silently, which shows as losses (ConnectX: rx_icrc_encapsulated)",
        count=facts.icrc.wrong,
        examples=names[:_EXAMPLES],
    )
