"""The values of a recording in equal windows: of all ports and priorities, RDMA devices and shared buffers.

Measures are those of ``rocelab compare``: rates, shares of time, and peaks of gauges in each window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.errors import UsageError
from lab.report.compare.compared_measures import BUFFER_COMPARED, DEVICE_COMPARED, LINK_COMPARED, PORT_COMPARED
from lab.report.compare.figures_in_window import WindowCounters
from lab.telemetry.read.series import RecordingPhase
from lab.telemetry.read.window_measure import LINK_TABLE, MeasureScope

if TYPE_CHECKING:
    from collections.abc import Mapping

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


MEASURED: Final = _by_owner()
"""The measures by owner (port, device or node) and name."""


class ValueKey(NamedTuple):
    """A value: its owner, the object, the priority (or queue, or group) if it has one, and the measure."""

    owner: str
    of: str
    priority: int | None
    measure: str


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Values by key, one for each window; a value that is 0 in all windows is absent."""

    starts: tuple[float, ...]
    """The start of each window, in seconds since the recording began."""
    objects: frozenset[str]
    """The ports, devices and nodes of the recording."""
    values: Mapping[ValueKey, NDArray[np.float64]]

    def of(self, key: ValueKey) -> NDArray[np.float64]:
        """Return the value in each window."""
        found = self.values.get(key)
        return np.zeros(len(self.starts)) if found is None else found


def window_values(recording: Recording, phase: str, every: float) -> WindowValues:
    """Return the values in each window of ``every`` seconds; a rest that is shorter than a window is left out.

    ``phase`` names a part of the recording; "" is all of it. UsageError for an unknown phase, and for too few windows
    or too many.
    """
    whole = recording.window(phase)
    step = max(1, int(min(every * _NS, _LONGEST)))
    count = (whole.end - whole.start) // step
    if not FEWEST <= count <= MOST:
        raise UsageError(
            f"{recording.name} has {count} windows of {every:g} s",
            f"choose --every so that there are {FEWEST} to {MOST}",
        )
    values: dict[ValueKey, NDArray[np.float64]] = {}
    for number in range(count):
        start = whole.start + number * step
        window = WindowCounters(recording, RecordingPhase("", start, start + step))
        for (owner, name), measure in MEASURED.items():
            for (of, priority), figure in window.figures(measure).items():
                if figure.value:
                    key = ValueKey(owner, of, priority, name)
                    values.setdefault(key, np.zeros(count))[number] = figure.value
    starts = (whole.start - recording.clock.start + number * step for number in range(count))
    return WindowValues(tuple(start / _NS for start in starts), recorded_objects(recording), values)


def recorded_objects(recording: Recording) -> frozenset[str]:
    """Return the ports, devices and nodes of a recording."""
    tables = (LINK_TABLE, *(scope.table for scope in MeasureScope))
    return frozenset(":".join(map(str, key[:2])) for table in tables for key in recording.counted.keys(table))
