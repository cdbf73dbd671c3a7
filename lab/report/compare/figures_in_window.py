"""The measures of a recording over one window: of all ports and priorities, devices or nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.dataplane import reductions
from lab.telemetry.read.window_measure import LINK_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.telemetry.read.counter_tables import Key
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.window_measure import Measure

FigureLine: TypeAlias = tuple[str, int | None]
"""A port, device or node, and the priority if the counter has one."""
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class WindowFigure:
    """A measure in a window: ``value`` in its unit; ``total`` is the growth of its counters, or a gauge's peak."""

    value: float = 0.0
    total: float = 0.0


class WindowCounters:
    """The counters of a recording in a window, from the last sample at or before its start to that of its end."""

    def __init__(self, recording: Recording, window: RecordingPhase) -> None:
        self._counted = recording.counted
        ns = recording.samples["ns"]
        first = max(0, int(np.searchsorted(ns, window.start, "right")) - 1)
        behind = max(first + 1, int(np.searchsorted(ns, window.end, "right")))
        self._samples = slice(first, behind)
        self._ns = ns[self._samples]
        self.seconds = (int(self._ns[-1]) - int(self._ns[0])) / _NS

    @cached_property
    def plain_ports(self) -> frozenset[str]:
        """The ports of plain links."""
        return frozenset(map(_name, self._counted.keys(LINK_TABLE)))

    def names(self, *tables: str) -> list[str]:
        """Return the names of ports, devices or nodes in some tables, in the order of the tables."""
        return list(dict.fromkeys(_name(key) for table in tables for key in self._counted.keys(table)))

    def counts(self, measure: Measure) -> bool:
        """Whether the recording has a counter of this measure."""
        return any(self._columns(measure))

    def figures(self, measure: Measure) -> dict[FigureLine, WindowFigure]:
        """Return the measure of each line that ever counted; it is 0 for all other lines."""
        values: dict[FigureLine, float] = {}
        totals: dict[FigureLine, float] = {}
        for table, column in self._columns(measure):
            samples = self._counted.samples_of(table, column, self._samples)
            grown = reductions.peak(samples) if measure.gauge else reductions.growth(samples)
            reduced = measure.reduce(samples, self._ns)
            for key, value, total in zip(self._counted.keys(table), reduced.tolist(), grown.tolist(), strict=True):
                line = _line(key)
                values[line] = values.get(line, 0.0) + value
                totals[line] = totals.get(line, 0.0) + total
        return {line: WindowFigure(value, totals[line]) for line, value in values.items()}

    def _columns(self, measure: Measure) -> Iterator[tuple[str, str]]:
        for table, column in measure.columns:
            if column in self._counted.columns(table):
                yield table, column


def _name(key: Key) -> str:
    """Return the name of a node; for a port or device, node and interface."""
    return ":".join(map(str, key[:2]))


def _line(key: Key) -> FigureLine:
    number = key[2] if len(key) > 2 else None
    return _name(key), number if isinstance(number, int) else None
