"""READ responses: which ones the requester accepts, and which are missing (IBA vol. 1 section 9.7.5.2).

A repeated response counts once. A response is missing if the next one does not continue the message, or if a later
request is answered first. The requester then asks again by itself, as after a NAK.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.transport.naks import HOLDS, IMPLIED
from lab.analysis.transport.psn_tracker import PsnGap, distance, fill, read_span
from lab.wire.headers import PSN_HALF, PSN_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Flags, Ints
    from lab.analysis.transport.naks import Naks

_OUTSTANDING: Final = 128
"""READs that a requester may have outstanding: more than devices allow."""
_FLOWS: Final = 4096
MAX_READS: Final = 65536
"""Flows whose outstanding READs are kept, and READs of all flows, to bound memory."""
_HOLES: Final = 64


@dataclass(slots=True)
class _Track:
    """Responses of one flow: ``front`` follows the highest PSN, -1 before the first; ``due`` follows the last PSN.

    ``open``: the message of the last response continues. ``holes`` are PSNs that were never captured. ``newest`` is
    the newest time (ns) of the responses.
    """

    front: int = -1
    due: int = -1
    open: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)
    newest: int = 0


class Responses:
    """READ responses of all flows. ``gaps`` counts missing ones by flow; ``missed`` is called for each.

    ``displaced`` counts responses that the file has after ones with higher PSNs, although they were captured before.
    """

    def __init__(self, streams: Streams, naks: Naks, missed: Callable[[int, PsnGap], None]) -> None:
        self._missed = missed
        self.gaps: dict[int, int] = defaultdict(int)
        self.displaced: dict[int, int] = defaultdict(int)
        self._tracks: dict[int, _Track] = defaultdict(_Track)
        self._reads: dict[int, deque[tuple[int, int]]] = {}  # by the requesting flow: PSN and DMALen
        self._outstanding = 0
        self._streams, self._naks = streams, naks

    def add(self, packets: Sorted) -> Flags:
        """Add a round; return a mask of all packets except repeated responses."""
        fresh = np.ones(len(packets.flow), np.bool_)
        self._ask(packets)
        at = np.flatnonzero(ops.READ_RESPONSE[packets.opcode] | ((packets.syndrome >= 0) & self._awaited(packets)))
        if len(at):
            starts = value_runs.starts(packets.flow[at])
            for rows in np.split(at, starts[1:]):
                self._answer(int(packets.flow[rows[0]]), packets, rows, fresh)
        return fresh

    def outstanding(self, flow: int) -> set[int]:
        """Return the PSNs of a flow's READs that no response was captured to."""
        return {psn for psn, _ in self._reads.get(flow, ())}

    def _ask(self, packets: Sorted) -> None:
        at = np.flatnonzero(ops.READ_REQUEST[packets.opcode] & (packets.dmalen >= 0))
        columns = (packets.flow[at], packets.psn[at], packets.dmalen[at])
        for flow, psn, size in zip(*(column.tolist() for column in columns), strict=True):
            if flow not in self._reads and len(self._reads) >= _FLOWS:
                continue
            reads = self._reads.setdefault(flow, deque(maxlen=_OUTSTANDING))
            if self._outstanding < MAX_READS and (not reads or distance(psn, reads[-1][0]) > 0):
                self._outstanding += len(reads) < _OUTSTANDING
                reads.append((psn, size))

    def _awaited(self, packets: Sorted) -> Flags:
        """Return a mask of answers to flows with outstanding READs."""
        waiting = np.zeros(len(self._streams.answers) + 1, np.bool_)
        waiting[[flow for flow, reads in self._reads.items() if reads]] = True
        return waiting[self._streams.answers[packets.flow]]

    def _answer(self, flow: int, packets: Sorted, rows: Ints, fresh: Flags) -> None:
        track = self._tracks[flow]
        reads = self._reads.get(int(self._streams.answers[flow]))
        if track.front < 0 and reads and distance(int(packets.psn[rows[0]]), reads[0][0]) >= 0:
            track.front = track.due = reads[0][0]
        if self._in_order(track, packets, rows):
            last = int(rows[-1])
            if reads:
                self._complete(flow, packets, rows[~ops.CONTINUED[packets.opcode[rows]]], reads)
            track.front = track.due = int(packets.psn[last]) + 1 & PSN_MASK
            track.open, track.newest = bool(ops.FULL[packets.opcode[last]]), int(packets.time[last])
            return
        columns = (packets.psn[rows], packets.opcode[rows], packets.time[rows])
        for row, psn, opcode, time in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
            if reads and not ops.CONTINUED[opcode]:
                self._skip(flow, (psn, time), reads)
            if ops.READ_RESPONSE[opcode]:
                fresh[row] = self._follow(flow, track, (psn, opcode, time))

    def _in_order(self, track: _Track, packets: Sorted, rows: Ints) -> bool:
        """Return whether all packets are responses, and each continues where the one before it ended."""
        psn, opcode = packets.psn[rows], packets.opcode[rows]
        step, opened = psn - value_runs.before(psn) & PSN_MASK, ops.FULL[value_runs.before(opcode)]
        step[0], opened[0] = (1, ops.CONTINUED[opcode[0]]) if track.front < 0 else (
            int(psn[0]) - track.front + 1 & PSN_MASK, track.open
        )  # fmt: skip
        goes_on = np.where(ops.CONTINUED[opcode], opened & (step == 1), ~opened & (step > 0) & (step < PSN_HALF))
        return bool((goes_on & ops.READ_RESPONSE[opcode]).all()) and not track.holes

    def _complete(self, flow: int, packets: Sorted, rows: Ints, reads: deque[tuple[int, int]]) -> None:
        for psn, time in zip(packets.psn[rows].tolist(), packets.time[rows].tolist(), strict=True):
            self._skip(flow, (psn, time), reads)

    def _skip(self, flow: int, answer: tuple[int, int], reads: deque[tuple[int, int]]) -> None:
        """Remove READs up to the one answered here; those before it were not answered."""
        psn, time = answer
        track = self._tracks[flow]
        while reads and distance(psn, reads[0][0]) >= 0:
            asked, size = reads.popleft()
            self._outstanding -= 1
            if asked != psn and (track.front < 0 or distance(asked, track.front) >= 0):
                mtu = int(self._streams.mtu[self._streams.of[flow]]) or 1024
                self._miss(flow, track, (asked, read_span(size, mtu)), time)

    def _follow(self, flow: int, track: _Track, response: tuple[int, int, int]) -> bool:
        """Return whether the requester had not received the response before."""
        psn, opcode, time = response
        goes_on, ahead = bool(ops.CONTINUED[opcode]), 0 if track.front < 0 else distance(psn, track.front)
        fresh = ahead >= 0 or fill(track.holes, psn)
        if ahead < 0 and time < track.newest:
            self.displaced[flow] += 1
        track.newest = max(track.newest, time)
        if track.due != track.front or ahead < 0:
            self._again(flow, track, (psn, goes_on, time), fresh=fresh)
        elif track.front >= 0 and (track.open != goes_on or (goes_on and ahead > 0)):
            self._miss(flow, track, (track.front, ahead), time)
        track.due, track.open = psn + 1 & PSN_MASK, bool(ops.FULL[opcode])
        if ahead >= 0:
            track.front = track.due
        return fresh

    def _again(self, flow: int, track: _Track, response: tuple[int, bool, int], *, fresh: bool) -> None:
        """Record missing packets among repeated responses: within a message, or its first one."""
        psn, goes_on, time = response
        jump = distance(psn, track.due)
        if jump > 0 and (track.open or goes_on):
            self._tell(flow, (track.due, jump), time)
        elif jump < 0 and goes_on and not fresh:
            self._tell(flow, (psn - 1 & PSN_MASK, 1), time)

    def _miss(self, flow: int, track: _Track, hole: tuple[int, int], time: int) -> None:
        if hole[1]:
            track.holes = [*track.holes[1 - _HOLES :], hole]
        self._tell(flow, hole, time)

    def _tell(self, flow: int, hole: tuple[int, int], time: int) -> None:
        self.gaps[flow] += 1
        self._missed(flow, PsnGap(time, *hole))
        self._naks.keep(int(self._streams.of[flow]), hole[0], (time, time + HOLDS, IMPLIED))
