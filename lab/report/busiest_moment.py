"""Find the busiest time of a recording: a starting point if nothing else is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.report.run_figures import reported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import Series

_WINDOW: Final = 0.5
"""Seconds over which activity is averaged: two samples may be very close together."""
_LEAST: Final = 3
"""Minimum number of samples for finding a busiest time."""


def busiest_moment(recording: Recording) -> float:
    """Return the time, in seconds, at which all ports together send, queue, mark and drop most; 0 without activity.

    Each measure is scaled by its own maximum, so that traffic does not hide a loss.
    """
    times = recording.samples["ns"]
    if len(times) < _LEAST:
        return 0.0
    kinds: dict[str, NDArray[np.float64]] = {}
    for _, _, measure, series in reported(recording):
        kinds[measure.name] = kinds.get(measure.name, 0.0) + _activity(series)
    width = min(len(times) - 1, max(1, round(recording.hz * _WINDOW)))
    averages = [np.convolve(values, np.ones(width) / width, "valid") for values in kinds.values()]
    busy = [average / average.max() for average in averages if average.max() > 0]
    if not busy:
        return 0.0
    middle = int(np.argmax(np.sum(busy, axis=0))) + (width + 1) // 2
    return float((int(times[middle]) - recording.clock.start) / 1e9)


def _activity(series: Series) -> NDArray[np.float64]:
    """Return a value for each interval between samples: a counter's rate, or a gauge's value at the end."""
    if series.gauge:
        return series.values[1:].astype(np.float64)
    return series.rates().values
