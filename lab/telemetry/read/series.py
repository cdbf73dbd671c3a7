"""A counter over time, and what is asked of it: how much it grew in a phase, how fast, how high a gauge rose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lab.dataplane import reductions
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lab.telemetry.read.measures import Measure

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class RecordingPhase:
    """A part of a run that has a name; times are ns of CLOCK_MONOTONIC, and a sample was taken at either end."""

    name: str
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / _NS


@dataclass(frozen=True)
class RecordingClock:
    """The times of a recording: when it began, and its phases by name, in their order."""

    start: int
    phases: Mapping[str, RecordingPhase]

    def phase(self, name: str) -> RecordingPhase:
        """The phase of this name; UsageError lists those that there are."""
        if name not in self.phases:
            have = ", ".join(self.phases) or "none"
            raise UsageError(f"the recording has no phase {name}", f"there is {have}")
        return self.phases[name]


@dataclass(frozen=True, eq=False)
class Series:
    """What a counter was at each sample: ``values``, and the ``ns`` of CLOCK_MONOTONIC at which they were read."""

    name: str
    ns: NDArray[np.int64]
    values: NDArray[np.uint64]
    clock: RecordingClock
    gauge: bool = False

    def __len__(self) -> int:
        return len(self.ns)

    def __add__(self, other: Series) -> Self:
        """Both together: of other queues, other ports, other reasons."""
        return replace(self, values=self.values + other.values, name=f"{self.name} + {other.name}")

    @property
    def seconds(self) -> NDArray[np.float64]:
        """When each was read, since the recording began."""
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
        """Its samples from the beginning of a phase to its end; UsageError when there is no such phase."""
        wanted = self.clock.phase(phase) if isinstance(phase, str) else phase
        return self.between(wanted.start, wanted.end)

    def between(self, start: int, end: int) -> Self:
        """Its samples from the last one that is not after ``start`` to the last one that is not after ``end``; ns."""
        first = max(0, int(np.searchsorted(self.ns, start, "right")) - 1)
        behind = int(np.searchsorted(self.ns, end, "right"))
        return replace(self, ns=self.ns[first:behind], values=self.values[first:behind])

    def value(self, measure: Measure) -> float:
        """The value of a measure that is made of it, in the measure's unit; of all its samples."""
        return float(measure.reduce(self.values, self.ns))

    def delta(self) -> int:
        """By how much a counter grew; UsageError for a gauge, which may fall."""
        self._require_counter()
        return int(reductions.growth(self.values))

    def rate(self) -> float:
        """By how much a counter grew in a second, on average; 0.0 where no time passed."""
        self._require_counter()
        return float(reductions.rate(self.values, self.ns))

    def rates(self) -> SampledRates:
        """By how much a counter grew in a second, from sample to sample."""
        self._require_counter()
        return SampledRates(self.seconds[1:], reductions.step_rates(self.values, self.ns))

    def since(self) -> float | None:
        """Seconds into the recording at which it was first seen to have grown; None when it never did."""
        moved = np.flatnonzero(reductions.steps(self.values))
        return float(self.seconds[moved[0] + 1]) if len(moved) else None

    def _require_counter(self) -> None:
        if self.gauge:
            raise UsageError(f"{self.name} is a gauge: it may fall", "ask for its values, first, last or max")


@dataclass(frozen=True, eq=False, slots=True)
class SampledRates:
    """Growth in a second between samples; ``seconds`` into the recording are those of the later one."""

    seconds: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def max(self) -> float:
        """The highest; 0.0 without samples."""
        return float(self.values.max()) if len(self.values) else 0.0
