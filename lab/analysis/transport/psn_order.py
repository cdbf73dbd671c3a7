"""Track PSNs of requests: whole rounds of flows in order, and other flows packet by packet in a ``Sequence``.

One comparison per round proves that flows are in order. The others are processed packet by packet, merged with the
answers of their responders.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.decode.columns import UNKNOWN
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import several, table, zeros
from lab.analysis.transport.psn_tracker import COUNTS, PATH_MTUS, PsnEvents, PsnRequest, Sequence, read_span
from lab.wire.header_fields import OpcodeFields
from lab.wire.headers import PSN_MASK
from lab.wire.opcodes import UC

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Flags, Ints
    from lab.analysis.transport.messages import Messages
    from lab.analysis.transport.naks import Naks
    from lab.analysis.transport.psn_tracker import PsnGap, Resend


MAX_WAITING: Final = 2**16
"""Packets after gaps that are kept in all, about 20 MB. The losses of a whole fabric need some thousand."""
MAX_SEQUENCES: Final = 4096
"""Flows with losses whose ``Sequence`` is kept, 2 KB each."""


class Heard(NamedTuple):
    """An answer: its time (ns), its position in the round, the last PSN that it acknowledges, and its MSN.

    The MSN is ``PSN_MASK`` in answers that repeat the PSN of a duplicate request.
    """

    time: int
    at: int
    psn: int
    msn: int


class Order:
    """The PSNs of every flow. ``sequences`` are those of flows with losses, the newest last.

    * ``accepted``: requests of the last round that responders of such flows accepted: flow, time and payload.
    * ``gap`` and ``resend`` are called for each event, with its flow.
    * ``counts``: by flow, of sequences that have ended.
    * ``displaced``: by flow, packets that the file has in the wrong order.
    * ``broken_off``: sequences that ended early for lack of room.
    """

    def __init__(
        self,
        streams: Streams,
        messages: Messages,
        naks: Naks,
        *,
        gap: Callable[[int, PsnGap], None],
        resend: Callable[[int, Resend], None],
    ) -> None:
        self.sequences: dict[int, Sequence] = {}
        self.accepted: list[tuple[int, int, int]] = []
        self.counts = table(MAX_FLOWS, len(COUNTS), np.uint32)
        self.displaced: dict[int, int] = defaultdict(int)
        self.broken_off = 0
        self._gap, self._resend = gap, resend
        self._told = PsnEvents()
        self._troubled: Flags = zeros(MAX_FLOWS, np.bool_)  # by flow: its sequence has not ended
        self._waiting = 0
        self._kept = zeros(MAX_FLOWS, np.uint32)  # by flow, part of that
        # Of requests in order: 1 + PSN, 0 before the first, and 1 + DMALen (or UNKNOWN) when that was a READ, else 0.
        self._last_read, self._last_time = several(2, MAX_FLOWS)
        self._last_psn = zeros(MAX_FLOWS, np.int32)
        self.acked = zeros(MAX_FLOWS, np.uint32)
        """By stream: 1 + the last PSN that it acknowledged, 0 before the first."""
        # The streams with ACKs in this round, and ``acked`` of each before it.
        self._acking, self._acked_before = np.zeros(0, np.int32), np.zeros(0, np.uint32)
        self._streams, self._messages, self._naks = streams, messages, naks

    def add(self, packets: Sorted) -> Flags:
        """Add a round. Return a mask of packets that are accepted as they are: those without a sequence."""
        self.accepted.clear()
        acks = np.flatnonzero((packets.syndrome >= 0) & (ops.ACK[packets.syndrome] == 0))
        acking = self._streams.of[packets.flow[acks]]
        self._acking = np.unique(acking)
        self._acked_before = self.acked[self._acking]
        self.acked[acking] = packets.psn[acks] + 1
        taken = np.ones(len(packets.flow), np.bool_)
        at = np.flatnonzero(ops.SEQUENCED[packets.opcode])
        self._messages.begin(packets, at)
        told = self._requests(packets, at, taken) if len(at) else set()
        for flow in self._answered(packets, told):
            self._tell(flow, [], self.heard(flow, packets))
        return taken

    def _answered(self, packets: Sorted, told: set[int]) -> list[int]:
        """Return flows with open sequences whose responder answered in this round, without those in ``told``."""
        waiting = np.flatnonzero(self._troubled[: self._streams.flows])
        if told:
            waiting = waiting[~np.isin(waiting, list(told))]
        if not len(waiting):
            return []
        answering = np.zeros(len(self._streams) + 1, np.bool_)  # the last entry stands for no peer
        answering[self._streams.of[packets.flow[packets.syndrome >= 0]]] = True
        found: list[int] = waiting[answering[self._streams.peer[self._streams.of[waiting]]]].tolist()
        return found

    def finish(self) -> None:
        """End the capture. The last ACK also covers PSNs whose ACKs came before the streams were paired."""
        self.accepted.clear()
        for flow, sequence in self.sequences.items():
            peer = int(self._streams.peer[self._streams.of[flow]])
            if peer >= 0 and (acked := int(self.acked[peer])):
                self._tell(flow, [], [Heard(0, 0, acked - 1, PSN_MASK)])
            self._end(flow, sequence)

    def _requests(self, packets: Sorted, at: Ints, taken: Flags) -> set[int]:
        """Process the requests at these indices, and return the flows that were processed by a sequence."""
        flow, psn = packets.flow[at], packets.psn[at]
        read = np.where(ops.READ_REQUEST[packets.opcode[at]], packets.dmalen[at], -1)
        starts = value_runs.starts(flow)
        before, before_read = value_runs.before(psn), value_runs.before(read)
        before[starts], before_read[starts] = self._last_psn[flow[starts]] - 1, self._last_read[flow[starts]] - 1
        good = self._follows(flow, psn - before & PSN_MASK, before_read)
        good[starts] |= before[starts] < 0
        bad = ~np.logical_and.reduceat(good, starts) | self._troubled[flow[starts]]
        ends = np.append(starts[1:], len(flow)) - 1
        told = set()
        for index in np.flatnonzero(bad).tolist():
            first = int(starts[index])
            place = at[first : int(ends[index]) + 1]
            number = int(flow[first])
            taken[place] = False
            self._open(number, packets, place, (int(before[first]), int(before_read[first])))
            self._tell(number, _listed(packets, place), self.heard(number, packets))
            told.add(number)
        in_order = flow[starts[~bad]]
        self._last_psn[in_order] = psn[ends[~bad]] + 1
        self._keep_reads(in_order, read[ends[~bad]])
        self._last_time[flow[starts]] = packets.time[at[ends]]
        return told

    def _keep_reads(self, flow: Ints, read: Ints) -> None:
        """Store the last READs of flows. Unchanged entries are not written, to save memory."""
        anew = np.flatnonzero(self._last_read[flow] != read + 1)
        self._last_read[flow[anew]] = read[anew] + 1

    def _follows(self, flow: Ints, step: Ints, before_read: Ints) -> Flags:
        """Return whether each request is the next one; a READ takes one PSN per packet of its response."""
        good: Flags = (step == 1) | ((before_read == UNKNOWN) & (step > 0) & (step <= PSN_MASK >> 1))
        if (before_read >= 0).any():
            mtu = self._streams.mtu[self._streams.of[flow]]
            known = (before_read >= 0) & (mtu > 0)
            spans = np.maximum(1, -(-before_read // np.where(known, mtu, 1)))
            good = np.where(known, step == spans, good)
            for guess in PATH_MTUS:
                good |= (before_read >= 0) & ~known & (step == np.maximum(1, -(-before_read // guess)))
        return good

    def _open(self, flow: int, packets: Sorted, at: Ints, last: tuple[int, int]) -> None:
        sequence = self.sequences.pop(flow, None)
        if sequence is None:
            if len(self.sequences) >= MAX_SEQUENCES:
                self._break_off(next(iter(self.sequences)))
            reliable = OpcodeFields.TRANSPORT.of(int(packets.opcode[at[0]])) != UC
            sequence = Sequence(flow, self._told, self._naks.asked, reliable=reliable)
        self.sequences[flow] = sequence
        sequence.mtu = int(self._streams.mtu[self._streams.of[flow]])
        if sequence.clean:
            (psn, read), acked = last, self._acked_until(flow)
            if psn < 0:
                sequence.start(int(packets.psn[at[0]]) - 1 & PSN_MASK, read, int(packets.time[at[0]]), acked)
            else:
                sequence.start(psn, read, int(self._last_time[flow]), acked)

    def _acked_until(self, flow: int) -> int:
        """Return the last PSN of a flow that was ACKed before this round, -1 if none was."""
        peer = int(self._streams.peer[self._streams.of[flow]])
        if peer < 0:
            return -1
        place = int(np.searchsorted(self._acking, peer))
        here = place < len(self._acking) and int(self._acking[place]) == peer
        return int(self._acked_before[place] if here else self.acked[peer]) - 1

    def _tell(self, flow: int, requests: list[tuple[int, PsnRequest]], heard: list[Heard]) -> None:
        """Process requests of a flow packet by packet, merged with the answers in order of time."""
        sequence, index = self.sequences[flow], 0
        for at, request in requests:
            while index < len(heard) and (heard[index].time, heard[index].at) < (request.time, at):
                sequence.acknowledge(heard[index].psn, heard[index].msn)
                index += 1
            sequence.feed(request)
        for answer in heard[index:]:
            sequence.acknowledge(answer.psn, answer.msn)
        self._collect(flow)
        self._bound(flow, sequence)
        accepted = self._told.accepted
        self._messages.accept(flow, accepted)
        self.accepted += [(flow, done.time, done.payload) for done in accepted if done is not None]
        accepted.clear()
        psn, read = sequence.last
        self._last_psn[flow] = psn + 1
        self._keep_reads(np.array([flow]), np.array([read]))
        self._troubled[flow] = not sequence.clean

    def _collect(self, flow: int) -> None:
        for gap in self._told.gaps:
            self._gap(flow, gap)
        for resend in self._told.resends:
            self._resend(flow, resend)
        if self._told.displaced:
            self.displaced[flow] += self._told.displaced
            self._told.displaced = 0
        self._told.gaps.clear()
        self._told.resends.clear()

    def _break_off(self, flow: int) -> None:
        """End a sequence early. The flow continues as if nothing were missing, in a partial message."""
        sequence = self.sequences.pop(flow)
        if not sequence.settled:
            self.broken_off += 1
            self._messages.accept(flow, [None])
        self._end(flow, sequence)

    def _end(self, flow: int, sequence: Sequence) -> None:
        sequence.finish()
        self._collect(flow)
        for place, name in enumerate(COUNTS):
            if count := getattr(sequence, name):
                self.counts[flow, place] += count
        self._troubled[flow] = False
        self._waiting -= int(self._kept[flow])
        self._kept[flow] = 0

    def _bound(self, flow: int, sequence: Sequence) -> None:
        """Bound the number of packets that all sequences keep."""
        self._waiting += sequence.waiting - int(self._kept[flow])
        if self._waiting > MAX_WAITING:
            self._waiting -= sequence.waiting
            sequence.forget()
        self._kept[flow] = sequence.waiting

    def newest(self, flow: int) -> int:
        """Return the newest PSN of a flow's requests, -1 if it is unknown. A READ has those of its response."""
        psn, read = int(self._last_psn[flow]) - 1, int(self._last_read[flow]) - 1
        if psn < 0 or read == UNKNOWN:
            return -1
        return psn + read_span(read, int(self._streams.mtu[self._streams.of[flow]]) or min(PATH_MTUS)) - 1 & PSN_MASK

    def missing(self, flow: int) -> int:
        """Return the number of a flow's PSNs that have been missing so far."""
        sequence = self.sequences.get(flow)
        return int(self.counts[flow, COUNTS.index("missing")]) + (0 if sequence is None else sequence.missing)

    def heard(self, flow: int, packets: Sorted) -> list[Heard]:
        """Return the answers of a flow's responder in this round, in order of time."""
        peer = int(self._streams.peer[self._streams.of[flow]])
        if peer < 0:
            return []
        heard: list[Heard] = []
        for member in self._streams.members(peer):
            first, end = np.searchsorted(packets.flow, [member, member + 1]).tolist()
            at = first + np.flatnonzero(packets.syndrome[first:end] >= 0)
            kind = ops.ACK[packets.syndrome[at]]
            at, kind = at[kind <= ops.SEQUENCE_ERROR], kind[kind <= ops.SEQUENCE_ERROR]
            psn = np.where(kind == 0, packets.psn[at], packets.psn[at] - 1 & PSN_MASK)  # a NAK's own PSN is missing
            msn = np.where(ops.PLAIN_ACK[packets.opcode[at]], packets.msn[at], PSN_MASK)
            columns = (packets.time[at], packets.at[at], psn, msn)
            heard += map(Heard._make, zip(*(column.tolist() for column in columns), strict=True))
        return sorted(heard)


def _listed(packets: Sorted, at: Ints) -> list[tuple[int, PsnRequest]]:
    """Return each request with its position in the round."""
    read = np.where(ops.READ_REQUEST[packets.opcode[at]], packets.dmalen[at], -1)
    columns = (
        packets.psn[at],
        read,
        *(c[at] for c in (packets.time, packets.payload, packets.opcode, packets.length)),
    )
    requests = map(PsnRequest._make, zip(*(column.tolist() for column in columns), strict=True))
    return list(zip(packets.at[at].tolist(), requests, strict=True))
