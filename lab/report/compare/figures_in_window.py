"""The counters of a recording over one window: growth in a second, or the peak of a gauge, of every line at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lab.telemetry.read.counter_tables import Key
    from lab.telemetry.read.dashboard import Measure
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

FigureLine: TypeAlias = tuple[str, int | None]
"""A port, device or node, and the priority where the counter has one."""
PLAIN_TABLE: Final = "interfaces"
"""The table of plain links, which count no priorities."""
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class WindowFigure:
    """A measure in a window: ``value`` in the measure's unit, and ``total``, by which its counters grew in all."""

    value: float = 0.0
    total: float = 0.0


class WindowCounters:
    """A recording from the last sample that is not after a window's start to the last that is not after its end."""

    def __init__(self, recording: Recording, window: RecordingPhase) -> None:
        self._counted = recording.counted
        ns = recording.samples["ns"]
        self._first = max(0, int(np.searchsorted(ns, window.start, "right")) - 1)
        self._last = max(self._first, int(np.searchsorted(ns, window.end, "right")) - 1)
        self.seconds = (int(ns[self._last]) - int(ns[self._first])) / _NS

    @cached_property
    def plain_ports(self) -> frozenset[str]:
        """Ports of plain links."""
        return frozenset(map(_name, self._counted.keys(PLAIN_TABLE)))

    def names(self, *tables: str) -> list[str]:
        """What is counted in some tables, in their order: ports, devices or nodes."""
        return list(dict.fromkeys(_name(key) for table in tables for key in self._counted.keys(table)))

    def has(self, measure: Measure, *, plain: bool) -> bool:
        """Whether the recording counts this measure, of ports of plain links or of everything else."""
        return any((table == PLAIN_TABLE) == plain for table, _ in self._columns(measure))

    def figures(self, measure: Measure) -> dict[FigureLine, WindowFigure]:
        """The measure of each line that ever counted anything; of other lines it is 0."""
        found: dict[FigureLine, float] = {}
        for table, column in self._columns(measure):
            values = self._peaks(table, column) if measure.gauge else self._growth(table, column)
            for key, value in zip(self._counted.keys(table), values.tolist(), strict=True):
                found[_line(key)] = found.get(_line(key), 0.0) + value
        if measure.gauge:
            return {line: WindowFigure(value * measure.scale, value) for line, value in found.items()}
        scale = measure.scale / self.seconds if self.seconds else 0.0
        return {line: WindowFigure(total * scale, total) for line, total in found.items()}

    def _columns(self, measure: Measure) -> Iterator[tuple[str, str]]:
        for table, pattern in measure.counters:
            for column in self._counted.columns(table):
                if re.fullmatch(pattern, column):
                    yield table, column

    def _growth(self, table: str, column: str) -> NDArray[np.int64]:
        first, last = (self._counted.at(table, column, sample) for sample in (self._first, self._last))
        return np.maximum(last.astype(np.int64) - first.astype(np.int64), 0)

    def _peaks(self, table: str, column: str) -> NDArray[np.uint64]:
        return self._counted.peaks(table, column, self._first, self._last)


def _name(key: Key) -> str:
    """Of a node its name, of anything else also the interface."""
    return ":".join(map(str, key[:2]))


def _line(key: Key) -> FigureLine:
    number = key[2] if len(key) > 2 else None
    return _name(key), number if isinstance(number, int) else None
