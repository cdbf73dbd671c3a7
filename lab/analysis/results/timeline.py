"""Amounts over time, in a fixed number of intervals whose length doubles as the capture grows."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import value_runs
from lab.analysis.flows.sparse_arrays import table

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Ints

INTERVALS: Final = 256
MAX_ROWS: Final = 1024
"""Flows, and paused ports, with amounts over time; later ones have none."""
_FIRST: Final = 100_000  # ns
_FARTHEST: Final = 2**62
"""ns, 146 years. A file with clocks that far apart is broken; later amounts are ignored."""


class TimelineSeries(Enum):
    """The series: bytes that the receiver accepted and packets, per flow; paused ns, per port."""

    PAYLOAD = "payload"
    MARKED = "marked"
    RESENT = "resent"
    NAKS = "naks"
    CNPS = "cnps"
    PAUSED = "paused"


class Timeline:
    """Sums by series, row and interval. Intervals last ``interval`` ns; the first begins at ``start``."""

    def __init__(self) -> None:
        self.interval = _FIRST
        self.start = 0
        self._sums = dict.fromkeys(TimelineSeries, table(0, INTERVALS))

    def row(self, channel: TimelineSeries, row: int) -> Ints:
        """Return the sums of one row."""
        sums = self._sums[channel]
        return sums[row] if row < len(sums) else np.zeros(INTERVALS, np.int64)

    def add(self, channel: TimelineSeries, row: Ints, time: Ints, amount: Ints) -> None:
        """Add amounts at times in ns; those before the start count in the first interval."""
        if len(row) and int(row.max()) >= MAX_ROWS:
            kept = row < MAX_ROWS
            row, time, amount = row[kept], time[kept], amount[kept]
        if not len(row):
            return
        since = np.maximum(time - self.start, 0)
        self._cover(int(since.max()))
        sums = self._rows(channel, int(row.max()) + 1)
        interval = since // self.interval
        starts = value_runs.starts(row * INTERVALS + interval)
        np.add.at(sums, (row[starts], interval[starts]), np.add.reduceat(amount, starts))

    def span(self, channel: TimelineSeries, row: int, begin: int, end: int) -> None:
        """Add the time from ``begin`` to ``end``, in ns, to the intervals that it covers."""
        begin, end = max(begin - self.start, 0), min(end - self.start, _FARTHEST)
        if row >= MAX_ROWS or begin >= end:
            return
        self._cover(end)
        sums = self._rows(channel, row + 1)
        first, last = begin // self.interval, end // self.interval
        edges = self.interval * np.arange(first, last + 2)
        sums[row, first : last + 1] += np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin)

    def cover(self, time: int) -> None:
        """Lengthen the intervals until they reach ``time``."""
        self._cover(time - self.start)

    def _cover(self, since: int) -> None:
        doublings = (since // (self.interval * INTERVALS)).bit_length()
        if not doublings:
            return
        self.interval <<= doublings
        for channel, sums in self._sums.items():
            if len(sums):
                longer = self._sums[channel] = table(len(sums), INTERVALS)
                for at in _filled(sums):
                    longer[:, at >> doublings] += sums[:, at]

    def _rows(self, channel: TimelineSeries, count: int) -> Ints:
        sums = self._sums[channel]
        if count > len(sums):
            self._sums[channel] = table(count, INTERVALS)
            for at in _filled(sums):
                self._sums[channel][: len(sums), at] = sums[:, at]
        return self._sums[channel]


def _filled(sums: Ints) -> list[int]:
    """Return the intervals that are not empty. Copying only these saves memory."""
    filled: list[int] = np.flatnonzero(sums.any(axis=0)).tolist()
    return filled
