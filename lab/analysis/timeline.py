"""Bytes over time in a fixed number of intervals, whose length doubles when the time outgrows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from lab.analysis.batch import Ints

INTERVALS: Final = 128
_FIRST: Final = 10**6  # ns


class Timeline:
    """Sums by link and interval; ``interval`` is in ns and the first one starts at the first time ever added."""

    def __init__(self) -> None:
        self.interval = _FIRST
        self.sums = np.zeros((0, INTERVALS), np.int64)
        self._start: int | None = None

    def add(self, link: Ints, time: Ints, amount: Ints) -> None:
        """Add amounts; what is before the start counts in the first interval."""
        if self._start is None:
            self._start = int(time[0])
        more = int(link.max()) + 1 - len(self.sums)
        if more > 0:
            self.sums = np.concatenate([self.sums, np.zeros((more, INTERVALS), np.int64)])
        since = np.maximum(time - self._start, 0)
        while int(since.max()) // self.interval >= INTERVALS:
            halves = self.sums[:, 0::2] + self.sums[:, 1::2]
            self.sums = np.concatenate([halves, np.zeros_like(halves)], axis=1)
            self.interval *= 2
        np.add.at(self.sums, (link, since // self.interval), amount)
