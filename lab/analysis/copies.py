"""Packets that one file has twice, because a mirror sent them as they came in and as they went out of a router.

Both have the same PSN and what goes with it, at almost the same time, and their TTLs differ. They are counted once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis import runs
from lab.analysis.rounds import Sorted

if TYPE_CHECKING:
    from lab.analysis.batch import Flags, Ints

_TOGETHER: Final = 10_000_000
"""ns: how far apart the two may be; a retransmission that took another way comes later."""
_WAITING: Final = 64  # packets of one flow between a router's two sides
_FLOWS: Final = 4096
"""Flows that are looked at, so that memory is bounded; copies in others are not recognised."""
_SHARE: Final = 4
"""One of so many packets has to be a copy: where it is fewer, a path has changed its length."""


class Copies:
    """Finds them; ``counts`` is by flow."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = defaultdict(int)
        self._ttl: Ints = np.zeros(0, np.int64)  # of each flow's first packet; -1 before it
        self._waiting: dict[int, dict[tuple[int, ...], tuple[int, int]]] = {}

    def sift(self, packets: Sorted) -> Sorted:
        """The round without copies."""
        flows = packets.flow[packets.starts]
        more = np.full(max(0, int(flows[-1]) + 1 - len(self._ttl)), -1)
        self._ttl = np.concatenate([self._ttl, more])
        fresh = self._ttl[flows] < 0
        self._ttl[flows[fresh]] = packets.ttl[packets.starts[fresh]]
        other = packets.ttl != self._ttl[packets.flow]
        if not other.any() and not self._waiting:
            return packets
        kept = np.ones(len(packets.flow), np.bool_)
        mixed = np.logical_or.reduceat(other, packets.starts) | np.isin(flows, list(self._waiting))
        ends = packets.ends
        for index in np.flatnonzero(mixed).tolist():
            self._sift(packets, slice(int(packets.starts[index]), int(ends[index]) + 1), kept)
        return packets if kept.all() else _only(packets, kept)

    def _sift(self, packets: Sorted, span: slice, kept: Flags) -> None:
        flow = int(packets.flow[span.start])
        known = flow in self._waiting
        waiting = self._waiting.get(flow, {})
        columns = (
            packets.psn,
            packets.opcode,
            packets.syndrome,
            packets.msn,
            packets.length,
            packets.ttl,
            packets.time,
        )
        copies = []
        for place, (*what, ttl, time) in enumerate(zip(*(column[span].tolist() for column in columns), strict=True)):
            seen = waiting.pop(tuple(what), None)
            if seen is not None and seen[0] != ttl and abs(time - seen[1]) < _TOGETHER:
                copies.append(span.start + place)
                continue
            waiting[tuple(what)] = (ttl, time)
            if len(waiting) > _WAITING:
                del waiting[next(iter(waiting))]
        if known or (len(self._waiting) < _FLOWS and _SHARE * len(copies) >= span.stop - span.start):
            kept[copies] = False
            self.counts[flow] += len(copies)
            self._waiting[flow] = waiting


def _only(packets: Sorted, kept: Flags) -> Sorted:
    *columns, _ = packets
    flow, *others = (column[kept] for column in columns)
    return Sorted(flow, *others, runs.starts(flow))  # type: ignore[arg-type, call-arg]  # each is what it was
