"""The values of a recording in equal windows: of ports, RDMA devices, shared buffers, jobs and queue pairs.

Measures are those of ``rocelab compare``: rates, shares of time, and peaks of gauges in each window. Those of jobs
and queue pairs are in ``job_and_qp_values``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.errors import UsageError
from lab.report.baseline.job_and_qp_values import ROW_MEASURED, job_and_qp_values
from lab.report.compare.compared_measures import BUFFER_COMPARED, DEVICE_COMPARED, LINK_COMPARED, PORT_COMPARED
from lab.report.compare.figures_in_window import WindowCounters
from lab.telemetry.read.series import RecordingPhase
from lab.telemetry.read.window_measure import LINK_TABLE, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.window_measure import Measure

FEWEST: Final = 5
"""Windows of a recording: a median of fewer says little."""
MOST: Final = 2000
_NS: Final = 10**9
_LONGEST: Final = 2.0**62
"""Nanoseconds of a window; the length can come from a file."""


def _by_owner() -> dict[tuple[str, str], Measure]:
    every = (*PORT_COMPARED, *LINK_COMPARED, *DEVICE_COMPARED, *BUFFER_COMPARED)
    return {(each.scope.owner, each.name): each for each in every}


_COUNTED: Final = _by_owner()
MEASURED: Final = {**_COUNTED, **ROW_MEASURED}
"""The measures by owner (port, device, node, job or qp) and name."""


class ValueKey(NamedTuple):
    """A value: its owner, the object, the priority (or queue, or group) if it has one, and the measure."""

    owner: str
    of: str
    priority: int | None
    measure: str


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Values by key, one for each window; a value that is 0 in all windows is absent.

    It is NaN in a window in which a job or a queue pair has none.
    """

    starts: tuple[float, ...]
    """The start of each window, in seconds since the recording began."""
    objects: frozenset[str]
    """The ports, devices and nodes of the recording, and the jobs and queue pairs of its windows."""
    values: Mapping[ValueKey, NDArray[np.float64]]

    def has(self, key: ValueKey) -> bool:
        """Return whether there is the object of a value. A job may have the name of a node."""
        return key in self.values or ((key.owner, key.measure) not in ROW_MEASURED and key.of in self.objects)

    def of(self, key: ValueKey) -> NDArray[np.float64]:
        """Return the value in each window."""
        found = self.values.get(key)
        return np.zeros(len(self.starts)) if found is None else found


def window_values(recording: Recording, whole: RecordingPhase, every: float) -> WindowValues:
    """Return the values of a part of a recording in each window of ``every`` seconds.

    A rest that is shorter than a window is left out. UsageError for too few windows or too many.
    """
    step = max(1, int(min(every * _NS, _LONGEST)))
    count = (whole.end - whole.start) // step
    if not FEWEST <= count <= MOST:
        raise UsageError(
            f"{recording.name} has {count} windows of {every:g} s",
            f"choose --every of baseline learn so that there are {FEWEST} to {MOST}, or a longer part",
        )
    values: dict[ValueKey, NDArray[np.float64]] = {}
    for number in range(count):
        start = whole.start + number * step
        window = WindowCounters(recording, RecordingPhase("", start, start + step))
        for (owner, name), measure in _COUNTED.items():
            for (of, priority), figure in window.figures(measure).items():
                if figure.value:
                    key = ValueKey(owner, of, priority, name)
                    values.setdefault(key, np.zeros(count))[number] = figure.value
    starts = whole.start + step * np.arange(count, dtype=np.int64)
    objects = set(_counted_objects(recording))
    for owner, of, name, figures in job_and_qp_values(recording, whole, starts, step):
        values[ValueKey(owner, of, None, name)] = figures
        objects.add(of)
    seconds = ((starts - recording.clock.start) / _NS).tolist()
    return WindowValues(tuple(seconds), frozenset(objects), values)


def _counted_objects(recording: Recording) -> Iterator[str]:
    tables = (LINK_TABLE, *(scope.table for scope in MeasureScope))
    return (":".join(map(str, key[:2])) for table in tables for key in recording.counted.keys(table))
