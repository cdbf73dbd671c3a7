"""Response times: ACKs after requests, CNPs after CE marks, and the spacing of CNPs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import zeros
from lab.analysis.results.histogram import Times
from lab.wire.header_fields import CE

if TYPE_CHECKING:
    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Flags, Ints

_PENDING: Final = 65536
MAX_TIMES: Final = 4096
"""Histograms, of 2.6 KB each."""


class Answers:
    """Round trips and CNPs of all flows, by flow number."""

    def __init__(self, streams: Streams) -> None:
        self.round_trips: dict[int, Times] = {}
        self.cnp_spacing: dict[int, Times] = {}
        self.cnp_delay: dict[int, Times] = {}
        self.untimed = 0
        """Durations that were not recorded for lack of room."""
        self._streams = streams
        self.first_mark = zeros(MAX_FLOWS)
        """By flow: the time of its first packet with CE, in ns; 0 without any."""
        self._last_mark = zeros(MAX_FLOWS)
        self._last_cnp: dict[int, int] = {}
        self._keys: Ints = np.zeros(0, np.int64)
        self._times: Ints = np.zeros(0, np.int64)

    def add(self, packets: Sorted) -> None:
        """Add a round."""
        asked = np.flatnonzero(packets.ackreq & ops.SEQUENCED[packets.opcode])
        self._keys = np.concatenate([self._keys, packets.flow[asked] << 24 | packets.psn[asked]])
        self._times = np.concatenate([self._times, packets.time[asked]])
        self._measure(packets, np.argsort(self._keys, kind="stable"))
        self._space_cnps(packets)

    def _measure(self, packets: Sorted, order: Ints) -> None:
        """Record times from a request with AckReq to the answer with its PSN, without resent requests (Karn).

        Every positive AETH is an answer (IBA vol. 1 section 9.7.5.1), including READ responses, which also answer
        FLUSH and ATOMIC WRITE (annex A19).
        """
        keys, times = self._keys, self._times
        ranked = keys[order]
        twice = np.zeros(len(keys), np.bool_)
        twice[1:] = ranked[1:] == ranked[:-1]
        twice[:-1] |= twice[1:]
        at = np.flatnonzero(_acks(packets) & (self._streams.answers[packets.flow] >= 0))
        answered = np.zeros(len(keys), np.bool_)
        if len(keys) and len(at):
            wanted = self._streams.answers[packets.flow[at]] << 24 | packets.psn[at]
            place = np.minimum(np.searchsorted(ranked, wanted), len(keys) - 1)
            durations = packets.time[at] - times[order[place]]
            match = (ranked[place] == wanted) & ~twice[place] & (durations >= 0)
            answered[order[place[match]]] = True
            self._count(wanted[match] >> 24, durations[match])
        self._keys, self._times = keys[~answered][-_PENDING:], times[~answered][-_PENDING:]

    def _count(self, flow: Ints, durations: Ints) -> None:
        order = np.argsort(flow, kind="stable")
        flow, durations = flow[order], durations[order]
        starts = value_runs.starts(flow)
        for number, part in zip(flow[starts].tolist(), np.split(durations, starts[1:]), strict=False):
            self._keep(self.round_trips, number, part)

    def _keep(self, times: dict[int, Times], flow: int, durations: Ints) -> None:
        if flow not in times and len(self.round_trips) + len(self.cnp_spacing) + len(self.cnp_delay) >= MAX_TIMES:
            self.untimed += len(durations)
            return
        if flow not in times:
            times[flow] = Times()
        times[flow].add(durations)

    def _space_cnps(self, packets: Sorted) -> None:
        """Record times between CNPs of a flow, and from the last CE-marked packet in reverse to each CNP."""
        marks = np.flatnonzero(packets.ecn == CE)
        flows, times = packets.flow[marks], packets.time[marks]
        for index in np.flatnonzero(ops.CNP[packets.opcode]).tolist():
            flow, time = int(packets.flow[index]), int(packets.time[index])
            if flow in self._last_cnp:
                self._keep(self.cnp_spacing, flow, np.array([time - self._last_cnp[flow]]))
            self._last_cnp[flow] = time
            peer = int(self._streams.answers[flow])
            if peer >= 0:
                begin, end = np.searchsorted(flows, [peer, peer + 1]).tolist()
                before = begin + int(np.searchsorted(times[begin:end], time, "right"))
                mark = int(times[before - 1]) if before > begin else int(self._last_mark[peer])
                if mark:
                    self._keep(self.cnp_delay, flow, np.array([time - mark]))
        first = value_runs.starts(flows)
        new = first[self.first_mark[flows[first]] == 0]
        self.first_mark[flows[new]] = times[new]
        last = value_runs.ends(flows)
        self._last_mark[flows[last]] = times[last]


def _acks(packets: Sorted) -> Flags:
    """Return a mask of packets with a positive AETH: everything up to their PSN has arrived."""
    acks: Flags = (packets.syndrome >= 0) & (ops.ACK[packets.syndrome] == 0)
    return acks
