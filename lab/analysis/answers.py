"""Which flow answers which, how long answers take, and which NAK made a requester go back.

A BTH names only the destination's QP. So the two directions of a connection are found by their PSNs: a response
carries the PSN of a request that was sent shortly before, the other way between the same hosts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis import opcode_tables as ops
from lab.analysis import runs
from lab.analysis.columns import CE
from lab.analysis.histogram import Times
from lab.analysis.sequence import MASK, Resend

if TYPE_CHECKING:
    from lab.analysis.batch import Flags, Ints
    from lab.analysis.flows import Flows, Sorted

_WINDOW: Final = 32768  # PSNs: how far an answer may lie behind the newest request
_PENDING: Final = 65536
_NAKS_KEPT: Final = 256
_PAIRED_AT_ONCE: Final = 64
_TRIES: Final = 32
_TRIED_AT_ONCE: Final = 4


class Answers:
    """Pairs, round trips, NAKs and CNPs of all flows; ``peer`` is by flow number, -1 where none is known."""

    def __init__(self, flows: Flows) -> None:
        self.peer: Ints = np.zeros(0, np.int64)
        self.round_trips: dict[int, Times] = defaultdict(Times)
        self.cnp_spacing: dict[int, Times] = defaultdict(Times)
        self.cnp_delay: dict[int, Times] = defaultdict(Times)
        self._last_mark: Ints = np.zeros(0, np.int64)
        self._last_cnp: dict[int, int] = {}
        self._flows = flows
        self._tries: dict[int, int] = {}
        self._by_hosts: dict[object, list[int]] = defaultdict(list)
        self._naks: dict[object, deque[tuple[int, ...]]] = defaultdict(lambda: deque(maxlen=_NAKS_KEPT))
        self._keys: Ints = np.zeros(0, np.int64)
        self._times: Ints = np.zeros(0, np.int64)

    def add(self, packets: Sorted) -> None:
        """Take in a batch that the flows have summed up."""
        for flow in range(len(self.peer), len(self._flows)):
            self._by_hosts[self._flows.key(flow).hosts].append(flow)
        more = np.full(len(self._flows) - len(self.peer), -1)
        self.peer, self._last_mark = np.concatenate([self.peer, more]), np.concatenate([self._last_mark, more])
        asked = np.flatnonzero(packets.ackreq & ops.SEQUENCED[packets.opcode])
        self._keys = np.concatenate([self._keys, packets.flow[asked] << 24 | packets.psn[asked]])
        self._times = np.concatenate([self._times, packets.time[asked]])
        order = np.argsort(self._keys, kind="stable")
        responses = np.flatnonzero(ops.RESPONSE[packets.opcode])
        self._pair(packets.flow[responses], packets.psn[responses], self._keys[order])
        self._keep_naks(packets)
        self._measure(packets, order)
        self._space_cnps(packets)
        self._acknowledge(packets)

    def finish(self) -> None:
        """Where only one flow is left each way between two hosts, they belong together."""
        left: dict[object, list[int]] = defaultdict(list)
        for flow in np.flatnonzero(self.peer < 0).tolist():
            left[self._flows.key(flow).hosts].append(flow)
        for flows in left.values():
            theirs = left.get(self._flows.key(flows[0]).reverse_hosts, [])
            if len(flows) == len(theirs) == 1:
                self.peer[flows[0]], self.peer[theirs[0]] = theirs[0], flows[0]

    def cause(self, flow: int, resend: Resend) -> str:
        """What made the requester go back: the kind of NAK that named the PSN, or ``timeout``.

        ``unknown`` when the capture has nothing of the other direction.
        """
        key, peer = self._flows.key(flow), int(self.peer[flow])
        if key.reverse_hosts not in self._by_hosts:
            return "unknown"
        causes = [
            kind
            for nak, time, psn, kind in self._naks.get(key.reverse_hosts, ())
            if psn == resend.psn and time <= resend.time and peer in {-1, nak}
        ]
        return ops.ACKS[causes[-1]] if causes else "timeout"

    def _pair(self, flow: Ints, psn: Ints, asked: Ints) -> None:
        """Look for the requests of flows that answer; several candidates are left for a later batch to decide.

        Best is a flow that asked for an ACK of just this PSN; else one that has sent it not long ago.
        """
        if not len(flow):
            return
        ends = runs.ends(flow)
        for end in ends[self.peer[flow[ends]] < 0][:_PAIRED_AT_ONCE].tolist():
            answering = int(flow[end])
            tried = self._tries.get(answering, 0)
            begin = max(0, end - _TRIED_AT_ONCE + 1)
            recent = psn[begin : end + 1][flow[begin : end + 1] == answering]
            if tried < _TRIES:
                self._tries[answering] = tried + 1
                self._pair_one(answering, recent[::-1].tolist(), asked)

    def _pair_one(self, answering: int, answered: list[int], asked: Ints) -> None:
        there = np.array(self._by_hosts.get(self._flows.key(answering).reverse_hosts, []), np.int64)
        there = there[self.peer[there] < 0]
        newest = self._flows.last_psn[there]
        for psn in answered:
            wanted = there << 24 | psn
            fit = there[np.searchsorted(asked, wanted, "right") > np.searchsorted(asked, wanted)]
            if not len(fit):
                fit = there[(newest >= 0) & (newest - psn & MASK < _WINDOW)]
            if len(fit) == 1:
                self.peer[answering], self.peer[fit[0]] = fit[0], answering
                return

    def _keep_naks(self, packets: Sorted) -> None:
        kind = np.where(packets.syndrome >= 0, ops.ACK[packets.syndrome], 0)
        for index in np.flatnonzero(kind).tolist():
            columns = (packets.flow, packets.time, packets.psn, kind)
            nak = tuple(int(column[index]) for column in columns)
            self._naks[self._flows.key(nak[0]).hosts].append(nak)

    def _measure(self, packets: Sorted, order: Ints) -> None:
        """Times from a request that asks for an ACK to the answer with its PSN; none where it was resent (Karn).

        Every positive AETH is one (IBA vol. 1 section 9.7.5.1): READ responses too, which answer FLUSH and ATOMIC
        WRITE as well (annex A19).
        """
        keys, times = self._keys, self._times
        ranked = keys[order]
        twice = np.zeros(len(keys), np.bool_)
        twice[1:] = ranked[1:] == ranked[:-1]
        twice[:-1] |= twice[1:]
        at = np.flatnonzero(_acks(packets) & (self.peer[packets.flow] >= 0))
        answered = np.zeros(len(keys), np.bool_)
        if len(keys) and len(at):
            wanted = self.peer[packets.flow[at]] << 24 | packets.psn[at]
            place = np.minimum(np.searchsorted(ranked, wanted), len(keys) - 1)
            durations = packets.time[at] - times[order[place]]
            match = (ranked[place] == wanted) & ~twice[place] & (durations >= 0)
            answered[order[place[match]]] = True
            self._count(wanted[match] >> 24, durations[match])
        self._keys, self._times = keys[~answered][-_PENDING:], times[~answered][-_PENDING:]

    def _count(self, flow: Ints, durations: Ints) -> None:
        order = np.argsort(flow, kind="stable")
        flow, durations = flow[order], durations[order]
        starts = runs.starts(flow)
        for number, part in zip(flow[starts].tolist(), np.split(durations, starts[1:]), strict=False):
            self.round_trips[number].add(part)

    def _space_cnps(self, packets: Sorted) -> None:
        """Times between the CNPs of a flow, and from the last packet marked CE the other way to each of them."""
        marks = np.flatnonzero(packets.ecn == CE)
        flows, times = packets.flow[marks], packets.time[marks]
        for index in np.flatnonzero(ops.CNP[packets.opcode]).tolist():
            flow, time = int(packets.flow[index]), int(packets.time[index])
            if flow in self._last_cnp:
                self.cnp_spacing[flow].add(np.array([time - self._last_cnp[flow]]))
            self._last_cnp[flow] = time
            peer = int(self.peer[flow])
            if peer >= 0:
                begin, end = np.searchsorted(flows, [peer, peer + 1]).tolist()
                before = begin + int(np.searchsorted(times[begin:end], time, "right"))
                mark = int(times[before - 1]) if before > begin else int(self._last_mark[peer])
                if mark >= 0:
                    self.cnp_delay[flow].add(np.array([time - mark]))
        last = runs.ends(flows)
        self._last_mark[flows[last]] = times[last]

    def _acknowledge(self, packets: Sorted) -> None:
        """Tell sequences in trouble what their responder has."""
        if not self._flows.sequences:
            return
        at = np.flatnonzero(_acks(packets))
        last = at[runs.ends(packets.flow[at])]
        for flow, psn in zip(self.peer[packets.flow[last]].tolist(), packets.psn[last].tolist(), strict=True):
            if flow in self._flows.sequences:
                self._flows.sequences[flow].acknowledge(psn)


def _acks(packets: Sorted) -> Flags:
    """Packets that say, by a positive AETH, that everything up to their PSN has arrived."""
    acks: Flags = (packets.syndrome >= 0) & (ops.ACK[packets.syndrome] == 0)
    return acks
