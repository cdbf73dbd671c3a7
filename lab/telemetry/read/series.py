"""The time series of a counter: growth in a phase, rates, the highest value of a gauge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lab.dataplane import reductions
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lab.telemetry.read.window_measure import Measure

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class RecordingPhase:
    """A named part of a run; times are in ns of CLOCK_MONOTONIC. A sample is taken at either end."""

    name: str
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return (self.end - self.start) / _NS


@dataclass(frozen=True)
class RecordingClock:
    """The times of a recording: its start, and its phases by name, in order."""

    start: int
    phases: Mapping[str, RecordingPhase]

    def phase(self, name: str) -> RecordingPhase:
        """Return the phase of this name; UsageError lists those that exist."""
        if name not in self.phases:
            have = ", ".join(self.phases) or "none"
            raise UsageError(f"the recording has no phase {name}", f"there is {have}")
        return self.phases[name]


@dataclass(frozen=True, eq=False)
class Series:
    """A counter at each sample: its ``values``, read at ``ns`` of CLOCK_MONOTONIC."""

    name: str
    ns: NDArray[np.int64]
    values: NDArray[np.uint64]
    clock: RecordingClock
    gauge: bool = False

    def __len__(self) -> int:
        return len(self.ns)

    def __add__(self, other: Series) -> Self:
        """Return the sum of both, for example over queues, ports or reasons."""
        return replace(self, values=self.values + other.values, name=f"{self.name} + {other.name}")

    @property
    def seconds(self) -> NDArray[np.float64]:
        """The time of each sample, in seconds since the recording began."""
        found: NDArray[np.float64] = (self.ns - self.clock.start) / _NS
        return found

    @property
    def first(self) -> int:
        """The first value; 0 without samples."""
        return int(self.values[0]) if len(self) else 0

    @property
    def last(self) -> int:
        """The last value; 0 without samples."""
        return int(reductions.last(self.values))

    @property
    def max(self) -> int:
        """The highest value; 0 without samples."""
        return int(reductions.peak(self.values))

    def during(self, phase: str | RecordingPhase) -> Self:
        """Return the samples of a phase; UsageError if there is no such phase."""
        wanted = self.clock.phase(phase) if isinstance(phase, str) else phase
        return self.between(wanted.start, wanted.end)

    def between(self, start: int, end: int) -> Self:
        """Return the samples from the last one at or before ``start`` to the last one at or before ``end``; ns."""
        first = max(0, int(np.searchsorted(self.ns, start, "right")) - 1)
        behind = int(np.searchsorted(self.ns, end, "right"))
        return replace(self, ns=self.ns[first:behind], values=self.values[first:behind])

    def value(self, measure: Measure) -> float:
        """Return the value of a measure of this counter over all its samples, in the measure's unit."""
        return float(measure.reduce(self.values, self.ns))

    def delta(self) -> int:
        """Return the growth of a counter; UsageError for a gauge, which may fall."""
        self._require_counter()
        return int(reductions.growth(self.values))

    def rate(self) -> float:
        """Return the average growth of a counter per second; 0.0 if no time passed."""
        self._require_counter()
        return float(reductions.rate(self.values, self.ns))

    def rates(self) -> SampledRates:
        """Return the growth of a counter per second, between consecutive samples."""
        self._require_counter()
        return SampledRates(self.seconds[1:], reductions.step_rates(self.values, self.ns))

    def since(self) -> float | None:
        """Return the time of the first growth, in seconds since the recording began; None if there was none."""
        moved = np.flatnonzero(reductions.steps(self.values))
        return float(self.seconds[moved[0] + 1]) if len(moved) else None

    def _require_counter(self) -> None:
        if self.gauge:
            raise UsageError(f"{self.name} is a gauge, whose value can fall", "use its values, first, last or max")


@dataclass(frozen=True, eq=False, slots=True)
class SampledRates:
    """Growth per second between samples; ``seconds`` into the recording are those of the later sample."""

    seconds: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def max(self) -> float:
        """The highest rate; 0.0 without samples."""
        return float(self.values.max()) if len(self.values) else 0.0
