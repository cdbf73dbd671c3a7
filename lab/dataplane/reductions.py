"""Reductions of a counter's or gauge's samples over a window: growth, rate, last value, peak.

Samples are along the first axis of the arrays; further axes are ports or priorities. Counters are unsigned and only
grow. A counter that falls was reset, for example because its device was created again. The fall itself counts as no
growth; growth after it counts in full. A window with fewer than two samples has no growth and no rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NS: Final = 10**9


def grown(before: NDArray[np.uint64], after: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the growth of each counter between two readings; 0 if it fell."""
    found: NDArray[np.uint64] = np.where(after > before, after - before, np.uint64(0))
    return found


def steps(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the growth of counters from each sample to the next: one row less than there are samples."""
    return grown(values[:-1], values[1:])


def growth(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the total growth of counters over the window."""
    found: NDArray[np.uint64] = steps(values).sum(axis=0, dtype=np.uint64)
    return found


def rate(values: NDArray[np.uint64], ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the average growth per second; 0 if no time passed. ``ns`` are the times of the samples."""
    return per_second(growth(values), span(ns))


def span(ns: NDArray[np.int64]) -> float:
    """Return the seconds from the first sample to the last; 0.0 for fewer than two samples."""
    return float(ns[-1] - ns[0]) / _NS if len(ns) else 0.0


def step_rates(values: NDArray[np.uint64], ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the growth per second from each sample to the next."""
    return per_second(steps(values), np.diff(ns) / _NS)


def lagged_rates(values: NDArray[np.uint64], ns: NDArray[np.int64], lag: int) -> NDArray[np.float64]:
    """Return the growth per second at each sample, since the latest sample at least ``lag`` ns before it.

    Without such a sample, it is measured from the first one. Two samples in short succession, as at the start of
    a phase, thus do not form a rate of their own.
    """
    before = np.maximum(np.searchsorted(ns, ns - lag, "right") - 1, 0)
    return per_second(grown(values[before], values), (ns - ns[before]) / _NS)


def last(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values of the last sample; 0 without samples."""
    return values[-1] if len(values) else np.zeros(values.shape[1:], np.uint64)


def peak(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the highest values; 0 without samples."""
    found: NDArray[np.uint64] = values.max(axis=0, initial=0)
    return found


def per_second(counts: NDArray[np.uint64] | float, seconds: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return counts divided by seconds; 0 where no time passed."""
    passed = np.asarray(seconds)
    found: NDArray[np.float64] = np.asarray(counts) / np.where(passed > 0, passed, np.inf)
    return found
