"""A measure: counters, and how a window of their samples becomes a value with a unit.

::

    PAUSED.reduce(series.values, series.ns)      0.25 of the window
    PAUSED.format(0.25)                          25.0%

``measures`` is the registry of all measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.dataplane import reductions
from lab.telemetry.read.measure_unit import PER_SECOND, MeasureUnit

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reduction(StrEnum):
    """How the samples of a window become one value. LAST and PEAK apply to gauges, the others to counters."""

    DIFFERENCE = "difference"
    RATE = "rate"
    SHARE = "share of time"
    LAST = "last"
    PEAK = "peak"


class MeasureScope(StrEnum):
    """The object with a measure: a port, one of its eight priorities, queues or groups, an RDMA device, or a node."""

    PORT = "port"
    PRIORITY = "priority"
    QUEUE = "queue"
    GROUP = "group"
    DEVICE = "device"
    NODE = "node"

    @property
    def owner(self) -> str:
        """The owner: a port for its priorities, queues and groups. Names of measures are unique for an owner."""
        return "port" if self.numbered else self.value

    @property
    def numbered(self) -> bool:
        """Whether a port has eight of it."""
        return self in {MeasureScope.PRIORITY, MeasureScope.QUEUE, MeasureScope.GROUP}

    @property
    def table(self) -> str:
        """The recording's table that holds the counters."""
        return _TABLES[self]


_TABLES: Final = {
    MeasureScope.PORT: "ports",
    MeasureScope.PRIORITY: "priorities",
    MeasureScope.QUEUE: "queues",
    MeasureScope.GROUP: "groups",
    MeasureScope.DEVICE: "rdma",
    MeasureScope.NODE: "nodes",
}
LINK_TABLE: Final = "interfaces"
"""The recording's table that holds the counters of plain links."""
OWNER_TABLES: Final = {scope.table: MeasureScope.PORT.table for scope in MeasureScope if scope.numbered}
"""The table with a row for each port, by the table with numbered rows. Numbers that never counted have no row."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measured quantity: its counters, and how a window of samples is reduced to a value.

    ``scale`` converts a count to the unit: 8 from bytes to bits, 1e-6 from microseconds to seconds. Several counters
    are added up. The eight values of a port are added up too, or with ``highest`` the highest is taken.
    """

    name: str
    title: str
    unit: MeasureUnit
    scope: MeasureScope
    counters: tuple[str, ...]
    meaning: str
    reduction: Reduction = Reduction.DIFFERENCE
    scale: float = 1.0
    links: tuple[str, ...] = ()
    """The equivalent counters of a plain link."""
    highest: bool = False

    @property
    def gauge(self) -> bool:
        """Whether the counters are gauges: a current or highest value, which may fall."""
        return self.reduction in {Reduction.LAST, Reduction.PEAK}

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The recording's table and column of each counter."""
        own = tuple((self.scope.table, name.replace("{n}", "")) for name in self.counters)
        return own + tuple((LINK_TABLE, name) for name in self.links)

    @property
    def heading(self) -> str:
        """The title with a capital letter, for use on its own."""
        return f"{self.title[:1].upper()}{self.title[1:]}"

    def table(self, number: int | None) -> str:
        """Return the recording's table that holds ``series(number)``."""
        return LINK_TABLE if number is None and self.links else self.scope.table

    def series(self, number: int | str | None = None) -> str:
        """Return the counter's name for priority, queue or group ``number``; differing words of several become ``*``.

        Without a number: the counter of a plain link, if the measure has one.
        """
        names = self.links if number is None and self.links else self.counters
        words = zip(*(each.split("_") for each in names), strict=True)
        name = "_".join(same[0] if len(set(same)) == 1 else "*" for same in words)
        return name if number is None else name.replace("{n}", str(number))

    def reduce(self, values: NDArray[np.uint64], ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the value of a window in the measure's unit; samples, taken at ``ns``, run along the first axis."""
        match self.reduction:
            case Reduction.LAST:
                return np.multiply(reductions.last(values), self.scale)
            case Reduction.PEAK:
                return np.multiply(reductions.peak(values), self.scale)
        return self.of_growth(reductions.growth(values), reductions.span(ns))

    def of_growth(self, grown: NDArray[np.uint64] | float, seconds: float) -> NDArray[np.float64]:
        """Return the value of a window of ``seconds`` in which the counter grew by ``grown``.

        A share can exceed 1 by its error: counters are read shortly after the time of their sample (``took``), and a
        reading during the renewal of a pause may count that pause twice.
        """
        if self.reduction is Reduction.DIFFERENCE:
            return np.multiply(grown, self.scale)
        return reductions.per_second(grown, seconds) * self.scale

    def combine(self, values: NDArray[np.float64]) -> float:
        """Combine the values of several priorities, queues or groups into one; 0 if there are none."""
        return float(values.max(initial=0.0) if self.highest or self.reduction is Reduction.PEAK else values.sum())

    def format(self, value: float) -> str:
        """Return a value with its unit."""
        return self.unit.write(value)

    def rate(self, name: str, title: str = "") -> Measure:
        """Return this measure per second: bytes become bit/s, other units counts, with ``/s`` behind the title."""
        bits = self.unit is MeasureUnit.BYTES
        return replace(
            self,
            name=name,
            title=title or f"{self.title}/s",
            unit=MeasureUnit.BITS_PER_SECOND if bits else PER_SECOND[self.unit],
            meaning=f"{self.meaning}, per second",
            scale=8.0 if bits else self.scale,
            reduction=Reduction.RATE,
        )
