"""List what looks wrong in the facts; doubts about the capture itself come first."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import value_runs
from lab.analysis.decode.opcode_tables import ACKS, RNR, SEQUENCE_ERROR
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.results.analysis_facts import CaptureFinding
from lab.analysis.results.class_findings import class_findings
from lab.analysis.results.congestion_findings import congestion_findings
from lab.analysis.results.loop_findings import loop_findings
from lab.analysis.results.path_findings import WRONG_ICRC, path_findings
from lab.analysis.results.pause_findings import of_links, pause_findings
from lab.analysis.transport.psn_order import MAX_SEQUENCES
from lab.analysis.transport.response_times import MAX_TIMES
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.analysis.read.packet_batch import Ints
    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

UNEVEN: Final = 0.8
"""Jain's index below which a spread is uneven; one idle link of two gives 0.5."""
_CONNECTED: Final = ("RC", "XRC")
_EXAMPLES: Final = 10
_DISORDER: Final = 1e-3
"""Seconds. Clocks and buffers of one machine cause less disorder than this."""
_LEAST_GAPS: Final = 8
"""A flow with this many gaps may be only partly captured."""
_SAMPLED: Final = 4
"""A capture with this many missing PSNs per captured packet is a sample."""
_LEAST_FLOWS: Final = 8  # per spread: fewer flows cannot be expected to spread evenly

_PROMPT: Final = 0.02
"""Seconds. A receiver whose first CNP is not captured by then, although marks are, sends none or loses it."""

_MEANINGS: Final = {
    ACKS[RNR]: "the responder had no receive buffer posted: it is slow, or posts too few; a requester without RNR "
    "retries left ends with status 13 (RNR retry counter exceeded)",
    ACKS[SEQUENCE_ERROR]: "packets were lost or reordered on the way to the responder",
    ACKS[3]: "the responder does not support or expect the request",
    ACKS[4]: "wrong rkey, address or permission",
    ACKS[5]: "the responder failed while it executed the request",
    ACKS[6]: "the reliable datagram context is wrong",
    ACKS[7]: "no such syndrome exists",
}


class _Sign(NamedTuple):
    """A kind of problem: its meaning, its counts per flow, and its text. A flow has it if its first count is not 0.

    ``whole``: it is valid even if the capture has only a part of the flow. ``ordered``: it depends on the order
    of the packets in the file.
    """

    meaning: str
    counts: Callable[[FlowFacts], tuple[int, ...]]
    words: Callable[..., str]
    whole: bool = False
    ordered: bool = True


def _unseen(flow: FlowFacts) -> int:
    """Return the PSNs that were ACKed but not captured.

    Without a go-back-N episode, packets that are in the file after their ACK were captured out of order.
    """
    later = 0 if flow.go_back_n else flow.resent - flow.repeats
    return max(0, flow.unseen - flow.beside - later)


def reordered(flow: FlowFacts) -> int:
    """Return the packets that arrived late: those with an earlier time are late only in the file."""
    return max(0, flow.late - flow.displaced)


def is_unsorted(flow: FlowFacts) -> bool:
    """Return whether most irregularities of a flow may come from the order of its packets in the file."""
    return 2 * flow.displaced > max(flow.late + flow.resent, flow.response_gaps)


def _said(kind: str, meaning: str) -> _Sign:
    return _Sign(
        meaning,
        lambda flow: (flow.answers.get(kind, 0),),
        lambda count: f"{counted(count, 'answer')} said {kind}",
        whole=True,
        ordered=False,
    )


_REORDERED: Final = _Sign(
    "the path reorders: RC answers with NAKs",
    lambda flow: (reordered(flow),),
    lambda late: f"{counted(late, 'packet')} out-of-order",
)
_SIGNS: Final = (
    _Sign(
        "its requester ends with status 12 (transport retry counter exceeded): the address or DestQP is wrong, the "
        "QP is in error, a filter drops the flow, or packets exceed an MTU on the path",
        lambda flow: (int(flow.never_answered > 0), flow.resent),
        lambda _, again: f"never answered, unlike other requests: {counted(again, 'retry', 'retries')}",
    ),
    _Sign(
        "nothing answers, or only one direction was captured; a requester without retries left ends with status 12"
        " (transport retry counter exceeded)",
        lambda flow: (int(flow.without_answers > 0 and not flow.looped), flow.resent),
        lambda _, again: f"{counted(again, 'retry', 'retries')}, and the capture has no answer",
    ),
    _Sign(
        "packets or their ACKs were lost or reordered",
        lambda flow: (
            (0, 0)
            if flow.looped or flow.never_answered or flow.without_answers
            else (
                flow.go_back_n - flow.rnr_retries - flow.paused_timeouts,
                flow.resent - flow.repeats - flow.rnr_resent - flow.paused_resent,
            )
        ),
        lambda times, again: f"{counted(times, 'go-back-N episode')}, {counted(again, 'packet')} retransmitted",
    ),
    _Sign(
        "probably no packet was lost: a pause lasted longer than the requester's timeout",
        lambda flow: (0, 0) if flow.looped or flow.never_answered else (flow.paused_timeouts, flow.paused_resent),
        lambda times, again: (
            f"{counted(times, 'timeout')} while the link was paused, {counted(again, 'packet')} retransmitted"
        ),
    ),
    _Sign(
        "no packet was lost: the responder asked the requester to wait and retry",
        lambda flow: (0, 0) if flow.looped else (flow.rnr_retries, flow.rnr_resent),
        lambda times, again: (
            f"{counted(times, 'RNR retry', 'RNR retries')}, {counted(again, 'packet')} retransmitted"
        ),
    ),
    _Sign(
        "the other end is down, or requests or answers do not arrive; a requester without retries left ends with"
        " status 12 (transport retry counter exceeded)",
        lambda flow: (int(flow.unanswered > 0 and not flow.looped),),
        lambda _: "retried twice or more without an answer",
    ),
    _Sign(
        "packets were lost on the way to the responder, which keeps later packets (selective repeat)",
        lambda flow: (flow.repeats,),
        lambda times: f"{counted(times, 'lost packet')} retransmitted alone, as requested by a NAK",
    ),
    _Sign(
        "they were lost or reordered before the capture point",
        lambda flow: (max(0, flow.missing - flow.late - max(flow.unseen, flow.beside)), flow.gaps),
        lambda missing, gaps: f"{counted(missing, 'PSN')} missing in {counted(gaps, 'gap')}",
    ),
    _Sign(
        "the capture lost them",
        lambda flow: (_unseen(flow) if _lacking(flow) < _SAMPLED * flow.packets else 0,),
        lambda unseen: f"{counted(unseen, 'PSN')} ACKed unseen: acknowledged but not captured",
        whole=True,
    ),
    _REORDERED,
    _Sign(
        "they were lost before the capture point",
        lambda flow: (flow.response_gaps,),
        lambda gaps: f"READ responses are missing in {counted(gaps, 'place')}",
    ),
    *(_said(kind, meaning) for kind, meaning in _MEANINGS.items()),
)


def findings(facts: AnalysisFacts) -> tuple[CaptureFinding, ...]:
    """Return everything that looks wrong, possibly nothing. Flows or links with one problem share a finding."""
    segments = _segments(facts)
    survey = _Survey(facts, segments)
    return (
        *_file(facts, survey),
        *_bounds(facts),
        *loop_findings(facts),
        *path_findings(facts),
        *class_findings(facts),
        *_incomplete_flows(survey),
        *_incomplete_reads(survey.unread),
        *_signs(facts, segments, survey.hosts),
        *_unanswered_marks(facts, segments, survey),
        *congestion_findings(facts),
        *pause_findings(facts),
        *_spread(facts),
    )


def incomplete(flow: FlowFacts) -> bool:
    """Return whether the capture lacks packets of a flow that the network did not lose: it samples, or lost packets.

    A reliable requester retransmits lost packets (IBA vol. 1 section 9.7.5.1.2). A flow that never does so lost
    nothing, and a flow cannot continue if most of its packets are missing.
    """
    if flow.gaps < _LEAST_GAPS or not _lacking(flow):
        return False
    mended = flow.resent or flow.late or flow.transport not in _CONNECTED
    return not mended or (_lacking(flow) >= _SAMPLED * flow.packets and 2 * flow.gaps >= flow.packets)


def _lacking(flow: FlowFacts) -> int:
    """Return the PSNs of a flow that no link captured."""
    return max(0, flow.missing - flow.beside)


def _incomplete_flows(survey: _Survey) -> Iterator[CaptureFinding]:
    """Yield the finding that losses and latencies of partly captured flows are unknown.

    A READ request takes a PSN for each of its responses, so those in the file are packets that are not missing. As
    many requests are missing for each missing response as are in the file for each of those there.
    """
    found = survey.partly
    if not found:
        return
    packets, missing, gaps = found.totals()
    responses = survey.responses()
    lacking = missing * (1 + packets / responses) if responses else missing
    if lacking >= _SAMPLED * (packets + responses):
        what = f"about 1 packet of {round(1 + lacking / (packets + responses))} is in the file: it is a sample"
        how = "capture every packet, with a mirror that does not sample"
    else:
        what = f"{counted(missing, 'PSN')} missing in {counted(gaps, 'gap')}, none retransmitted"
        how = "capture with a larger buffer, or a filter"
    yield found.finding(
        what, f"the capture lacks them, so that losses and latencies are unknown: {how}", unjudged=True
    )


def _incomplete_reads(found: _Streams) -> Iterator[CaptureFinding]:
    """Yield the finding that READ responses are missing in the capture only."""
    if found:
        responses, gaps = found.totals()
        what = f"READ responses are missing in {counted(gaps, 'place')}, none requested again"
        if _is_sample(responses, gaps):
            what = f"{counted(responses, 'READ response')} with gaps between most of them: it is a sample"
        yield found.finding(
            what, "the capture lacks them, so that losses of READs are unknown: capture every packet", unjudged=True
        )


def _is_sample(responses: int, gaps: int) -> bool:
    """Return whether most READ responses come after a gap: no READ would continue with so few."""
    return 2 * gaps >= responses


class _Streams:
    """Flows with a common problem, grouped by stream, as several links capture one stream.

    Of each stream, the highest counts of any link are used. Only the first streams are kept by name, to bound memory.
    ``segments`` gives the VNI of flows that other links captured in a tunnel.
    """

    def __init__(self, segments: Mapping[int, int | None]) -> None:
        self._segments = segments
        self._streams = array("q")
        self._counts: list[array[int]] = []
        self._links: dict[int, int] = {}
        self._first: dict[int, str] = {}

    def __bool__(self) -> bool:
        return bool(self._streams)

    def add(self, flow: FlowFacts, *counts: int) -> None:
        """Add a flow with its counts."""
        ends = _ends(flow)
        stream = hash((self._segments.get(ends) if flow.vni is None else flow.vni, ends))
        self._streams.append(stream)
        self._counts = self._counts or [array("q") for _ in counts]
        for column, count in zip(self._counts, counts, strict=True):
            column.append(count)
        if stream in self._first or len(self._first) < _EXAMPLES:
            self._first.setdefault(stream, name(flow))
            self._links[stream] = self._links.get(stream, 0) + 1

    def _most(self) -> list[Ints]:
        """Return the counts of each stream, by column."""
        counts = [np.array(column) for column in self._counts]
        streams = np.array(self._streams)
        order = np.lexsort((*reversed(counts), streams))
        last = order[value_runs.ends(streams[order])]
        return [column[last] for column in counts]

    def totals(self) -> list[int]:
        """Return the sum of each count over all streams."""
        return [int(counts.sum()) for counts in self._most()]

    def finding(self, what: str, meaning: str, *, note: bool = False, unjudged: bool = False) -> CaptureFinding:
        """Return the finding for these streams, with their names and the number of further links."""
        more = {stream: self._links[stream] - 1 for stream in self._first}
        names = [
            first + f" and {counted(more[of], 'more link')}" * (more[of] > 0) for of, first in self._first.items()
        ]
        count = len(self._most()[0])
        whose = names[0] if count == 1 else f"{count} flows, the first {next(iter(self._first.values()))}"
        return CaptureFinding(
            what=f"{whose}: {what}", meaning=meaning, note=note, count=count, examples=tuple(names), unjudged=unjudged
        )


class _Survey:
    """Properties of all flows, collected in one pass, because flows are computed anew on each access.

    * ``copies``: of flows without a loop.
    * ``partly``: flows that are only partly captured, without those whose missing packets were all acknowledged.
    * ``hosts``: source and destination of partly captured flows, in both directions.
    * ``unread``: flows of READ responses that are only partly captured, of other hosts than those of ``partly``.
    * ``displaced``: flows with packets in the wrong order in the file. ``unsorted``: they hide losses or reordering.
    * ``cnps``: counts by hosts and VNI. ``answering``: hosts with a flow between them. ``marked``: any packet has CE.
    """

    def __init__(self, facts: AnalysisFacts, segments: Mapping[int, int | None]) -> None:
        self.copies, self.marked = 0, False
        self.cnps = Counter[tuple[str, str, int | None]]()
        self.answering: set[tuple[str, str]] = set()
        self.partly = _Streams(segments)
        self.hosts: set[tuple[str, str]] = set()
        self.unread = _Streams(segments)
        self.displaced, self.unsorted = _Streams(segments), False
        self._responses = dict[tuple[str, str], Counter[str]]()  # by hosts, and by link
        self._asking = set[tuple[str, str]]()  # the hosts of ``partly``
        resending, gapped = set[tuple[str, str]](), []
        for flow in facts.flows:
            self.copies += 0 if flow.looped else flow.copies
            self.cnps[flow.src, flow.dst, flow.vni] += flow.cnps
            self.answering.add((flow.src, flow.dst))
            self.marked |= flow.marked > 0
            if flow.displaced:
                self.displaced.add(flow, flow.displaced)
                hidden = is_unsorted(flow) and any(sign.counts(flow)[0] for sign in _SIGNS if sign.ordered)
                self.unsorted = self.unsorted or hidden
            if flow.responses:
                self._responses.setdefault((flow.src, flow.dst), Counter())[flow.link] += flow.responses
            if flow.resent:
                resending.add((flow.src, flow.dst))
            if flow.response_gaps >= _LEAST_GAPS:
                gapped.append(flow)
            if not incomplete(flow):
                continue
            self.hosts |= {(flow.src, flow.dst), (flow.dst, flow.src)}
            if _lacking(flow) > flow.unseen or _lacking(flow) >= _SAMPLED * flow.packets:
                self.partly.add(flow, flow.packets, _lacking(flow), flow.gaps)
                self._asking.add((flow.src, flow.dst))
        for flow in gapped:
            self._add_unread(flow, resending)

    def responses(self) -> int:
        """Return the READ responses to the hosts of ``partly``, each counted at the link that has the most."""
        there = (self._responses.get((dst, src)) for src, dst in self._asking)
        return sum(max(links.values()) for links in there if links)

    def _add_unread(self, flow: FlowFacts, resending: set[tuple[str, str]]) -> None:
        """Add a flow if responses are missing and no READ was retried, or if it is a sample."""
        back = (flow.dst, flow.src)
        if not _is_sample(flow.responses, flow.response_gaps) and (back in resending or back not in self.answering):
            return
        if back not in self._asking:
            self.unread.add(flow, flow.responses, flow.response_gaps)
        self.hosts |= {(flow.src, flow.dst), back}


def _ends(flow: FlowFacts) -> int:
    return hash((flow.src, flow.dst, flow.qp, flow.transport))


def _segments(facts: AnalysisFacts) -> dict[int, int | None]:
    """Return the VNI of flows that a link captured in a tunnel, by their ends; None if it varies."""
    found: dict[int, int | None] = {}
    for flow in facts.flows if facts.tunnels else ():
        if flow.vni is not None:
            ends = _ends(flow)
            found[ends] = flow.vni if found.get(ends, flow.vni) == flow.vni else None
    return found


def _signs(
    facts: AnalysisFacts, segments: Mapping[int, int | None], partly: set[tuple[str, str]]
) -> Iterator[CaptureFinding]:
    troubled = [_Streams(segments) for _ in _SIGNS]
    sprayed, accepting = _Streams(segments), _accepting(facts)
    for flow in facts.flows:
        late, mixed = reordered(flow), is_unsorted(flow)
        accepted = late and not flow.resent and flow.transport in _CONNECTED and (flow.src, flow.dst) in accepting
        if accepted and not mixed:
            sprayed.add(flow, late)
        part = (flow.src, flow.dst) in partly
        for sign, streams in zip(_SIGNS, troubled, strict=True):
            judged = (sign.whole or not part) and not (sign.ordered and mixed)
            counts = sign.counts(flow) if judged else (0,)
            if counts[0] and not (accepted and sign is _REORDERED):
                streams.add(flow, *counts)
    for sign, streams in zip(_SIGNS, troubled, strict=True):
        if streams:
            yield streams.finding(sign.words(*streams.totals()), sign.meaning)
    if sprayed:
        (late,) = sprayed.totals()
        yield sprayed.finding(
            f"{counted(late, 'packet')} out-of-order, and none was rejected",
            "the path sprays packets over several links, and the responder accepts them in any order: it sent no NAK",
            note=True,
        )


def _accepting(facts: AnalysisFacts) -> set[tuple[str, str]]:
    """Return the hosts, requester first, whose responders sent ACKs and no NAK for a PSN."""
    answers = [(flow.dst, flow.src, flow.answers) for flow in facts.flows if flow.answers]
    rejecting = {(src, dst) for src, dst, found in answers if found.get(ACKS[SEQUENCE_ERROR])}
    return {(src, dst) for src, dst, _ in answers} - rejecting


def name(flow: FlowFacts) -> str:
    """Return a text for a flow: source, destination, QP and link."""
    tunnel = "" if flow.vni is None else f" in VNI {flow.vni}"
    return f"{flow.src} to {flow.dst} QP {flow.qp:#x}{tunnel} at {flow.link}"


def _file(facts: AnalysisFacts, survey: _Survey) -> Iterator[CaptureFinding]:
    damaged = facts.damage_count - facts.icrc.wrong
    if damaged:
        damages = [damage for damage in facts.damages if damage.what != WRONG_ICRC]
        first = f"{damages[0].place} {damages[0].what}" if damages else "the file"
        more = f", and {damaged - 1} more" if damaged > 1 else ""
        yield CaptureFinding(
            f"{first}{more}",
            "the file or the sender is damaged; the rest was analysed",
            count=damaged,
            examples=tuple(f"{damage.place} {damage.what}" for damage in damages[:_EXAMPLES]),
        )
    if facts.dropped:
        lost = f"{counted(sum(facts.dropped.values()), 'packet')} lost while capturing"
        yield of_links(facts.dropped, lost, "gaps there may come from the capture, not from the network")
    if survey.displaced:
        (displaced,) = survey.displaced.totals()
        kept = "so that losses and reordering are unknown" if survey.unsorted else "the path did not reorder them"
        yield survey.displaced.finding(
            f"{counted(displaced, 'packet')} not in time order in the file, up to {format_time(facts.backwards)} off",
            f"{kept}: `reordercap IN OUT` sorts the file",
            note=not survey.unsorted,
            unjudged=survey.unsorted,
        )
    elif facts.backwards > _DISORDER:
        yield CaptureFinding(
            f"packets are not in time order: some are {format_time(facts.backwards)} earlier than preceding ones",
            "files were concatenated, and responses may not be matched: mergecap or reordercap sorts them",
            note=True,
        )
    if facts.short:
        yield CaptureFinding(
            f"{counted(facts.short, 'packet')} shorter than the IP length: the captured part was analysed",
            "a mirror truncated them and wrote the truncated length",
            note=True,
            count=facts.short,
        )
    if facts.cut:
        yield CaptureFinding(
            f"{counted(facts.cut, 'packet')} truncated by the snap length before the headers end: not analysed",
            "RoCEv2 with VLAN tags in a tunnel over IPv6 needs 180 bytes: capture with a snap length of 192 or more",
            count=facts.cut,
            unjudged=True,
        )
    if facts.rocev1:
        yield CaptureFinding(
            f"{counted(facts.rocev1, 'packet')} of RoCEv1, which is not routed and has no UDP port for ECMP",
            "the program uses a GID index of type RoCE v1: use one of type RoCE v2 (show_gids, NCCL_IB_GID_INDEX,"
            " ib_write_bw -x)",
            note=True,
        )
    alike = min(facts.copies_alike, survey.copies)  # passes of a loop are no duplicates
    if alike:
        yield CaptureFinding(
            f"{counted(facts.copies_alike, 'duplicate packet')} with identical headers: each is counted once",
            "the mirror covers both ingress and egress of a switch, or several switches",
            note=True,
        )
    if copies := survey.copies - alike:
        yield CaptureFinding(
            f"{counted(copies, 'duplicate packet')} from one hop or more further on: each is counted once",
            "the mirror covers ingress and egress of a router, or several routers; or a router sent the packets back",
            note=True,
            count=copies,
        )


def _bounds(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield findings about data that was dropped to bound memory."""
    if facts.untracked:
        yield CaptureFinding(
            f"{counted(facts.untracked, 'packet')} beyond the limit of {MAX_FLOWS:,} flows",
            "the capture has very many flows, shows an attack, or is damaged; use a filter to reduce them",
            count=facts.untracked,
        )
    if facts.broken_off:
        yield CaptureFinding(
            f"{counted(facts.broken_off, 'flow')} with losses beyond the limit of {MAX_SEQUENCES:,}: their recovery"
            " is not known",
            "the limit bounds memory; use a filter to reduce the flows",
            note=True,
            count=facts.broken_off,
        )
    if facts.untimed:
        yield CaptureFinding(
            f"{counted(facts.untimed, 'latency', 'latencies')} beyond the limit of {MAX_TIMES:,} timed flows",
            "the limit bounds memory; use a filter to reduce the flows",
            note=True,
            count=facts.untimed,
        )


def _unanswered_marks(
    facts: AnalysisFacts, segments: Mapping[int, int | None], survey: _Survey
) -> Iterator[CaptureFinding]:
    """Yield flows with marked packets and no CNP in reverse: a fault if the receiver's NIC is known to send CNPs.

    CNPs are only sent for connections (IBA vol. 1 annex A17.9.3), so marked datagrams are ignored.
    """
    if not survey.marked:
        return
    cnps, answering = survey.cnps, survey.answering
    notifies = {nic.address: nic.np for nic in facts.nics}
    unknown, off, on = (_Streams(segments) for _ in range(3))
    for flow in facts.flows:
        back, answers = (flow.dst, flow.src), cnps[flow.dst, flow.src, flow.vni]
        if not flow.marked or flow.transport not in _CONNECTED or back not in answering or answers:
            continue
        if flow.dst not in notifies:
            unknown.add(flow, flow.marked)
        elif not notifies[flow.dst]:
            off.add(flow, flow.marked)
        elif flow.marked_for > _PROMPT:
            on.add(flow, flow.marked)
    for silent, meaning, note in (
        (on, "the receiver's NIC answers marks: compare its np_cnp_sent with rp_cnp_handled of the sender", False),
        (off, "the receiver's NIC answers no marks: its congestion control is off (nic.cc)", True),
        (unknown, "ECN slows no sender without congestion control in the NICs (nic.cc)", True)
        if facts.emulated
        else (unknown, "the receiver does not slow its sender", False),
    ):
        if silent:
            (marked,) = silent.totals()
            yield silent.finding(f"{counted(marked, 'packet')} marked CE, no CNP answered", meaning, note=note)


def _spread(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    uneven = [group for group in facts.spread if group.jain < UNEVEN and sum(group.flows.values()) >= _LEAST_FLOWS]
    uneven.sort(key=lambda group: group.jain)
    if uneven:
        names = [", ".join(group.bytes) for group in uneven]
        where = names[0] if len(names) == 1 else f"{len(names)} groups of parallel links, the worst is {names[0]}"
        yield CaptureFinding(
            f"{where}: uneven spread, Jain index {uneven[0].jain:.2f}",
            "too little entropy for ECMP: few source ports, or the same hash at every switch",
            count=len(names),
            examples=tuple(names[:_EXAMPLES]),
        )
