"""Percentiles of durations in constant memory: a logarithmic histogram, accurate to 3 percent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Ints

_PER_OCTAVE: Final = 16
_OCTAVES: Final = 40  # up to 18 minutes of nanoseconds


class Times:
    """Durations in ns; order statistics are returned in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self._least = np.iinfo(np.int64).max
        self._most = 0
        self._bins = np.zeros(_PER_OCTAVE * _OCTAVES, np.int32)

    def add(self, durations: Ints) -> None:
        """Add durations; negative ones are ignored."""
        durations = durations[durations >= 0]
        if len(durations):
            self.count += len(durations)
            self._least = min(self._least, int(durations.min()))
            self._most = max(self._most, int(durations.max()))
            place = np.log2(np.maximum(durations, 1)) * _PER_OCTAVE
            np.add.at(self._bins, np.minimum(place.astype(np.int64), len(self._bins) - 1), 1)

    def quantile(self, share: float) -> float:
        """Return the duration, in seconds, that the given share does not exceed; 0 without any."""
        if not self.count:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._bins), max(1.0, share * self.count)))
        middle = 2 ** ((place + 0.5) / _PER_OCTAVE)
        return float(min(max(middle, self._least), self._most)) / 1e9

    @property
    def least(self) -> float:
        """The shortest duration, in seconds."""
        return float(self._least) / 1e9 if self.count else 0.0

    @property
    def most(self) -> float:
        """The longest duration, in seconds."""
        return float(self._most) / 1e9
