"""What a counter's or gauge's samples come to over a window: growth, rate, last value, peak.

Functions take samples along the first axis, and any further axes (ports, priorities) at once. Counters are unsigned
and count up. One that falls was reset, as that of a device that was made anew: the fall counts as no growth, and what
comes after it counts in full. A window of no sample, or of one, has no growth and no rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NS: Final = 10**9


def grown(before: NDArray[np.uint64], after: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """By how much each counter grew between two readings; 0 where it fell."""
    found: NDArray[np.uint64] = np.where(after > before, after - before, np.uint64(0))
    return found


def steps(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """By how much counters grew from each sample to the next: one row less than there are samples."""
    return grown(values[:-1], values[1:])


def growth(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """By how much counters grew in all."""
    found: NDArray[np.uint64] = steps(values).sum(axis=0, dtype=np.uint64)
    return found


def rate(values: NDArray[np.uint64], ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Growth in a second, on average; 0 where no time passed. ``ns`` are the times of the samples."""
    return per_second(growth(values), span(ns))


def span(ns: NDArray[np.int64]) -> float:
    """Seconds from the first sample to the last; 0.0 of less than two."""
    return float(ns[-1] - ns[0]) / _NS if len(ns) else 0.0


def step_rates(values: NDArray[np.uint64], ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Growth in a second from each sample to the next."""
    return per_second(steps(values), np.diff(ns) / _NS)


def lagged_rates(values: NDArray[np.uint64], ns: NDArray[np.int64], lag: int) -> NDArray[np.float64]:
    """Growth in a second at each sample, since the last one that was taken ``lag`` ns or more before it.

    Two samples that are close together, as at the beginning of a phase, make no rate of their own.
    """
    before = np.maximum(np.searchsorted(ns, ns - lag, "right") - 1, 0)
    return per_second(grown(values[before], values), (ns - ns[before]) / _NS)


def last(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values of the last sample; 0 without samples."""
    return values[-1] if len(values) else np.zeros(values.shape[1:], np.uint64)


def peak(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The highest values; 0 without samples."""
    found: NDArray[np.uint64] = values.max(axis=0, initial=0)
    return found


def per_second(counts: NDArray[np.uint64] | float, seconds: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Counts by the seconds in which they were counted; 0 where no time passed."""
    passed = np.asarray(seconds)
    found: NDArray[np.float64] = np.asarray(counts) / np.where(passed > 0, passed, np.inf)
    return found
