"""The counters of a recording by object, for checks: ports, RDMA devices, nodes.

::

    recording.port("leaf1:swp3").rx_pause(priority=3).during("inject").delta()
    recording.rdma("h1:eth1").counter("out_of_seq_request").delta()
    recording.port("leaf1:swp3").value(measures.PAUSED, "inject", priority=3)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.telemetry.read.measures import DROPPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.telemetry.read.counter_tables import CounterTables
    from lab.telemetry.read.series import RecordingPhase, Series
    from lab.telemetry.read.window_measure import Measure

_NUMBERED: Final = re.compile(r"^((?:rx|tx)_prio|queue|pg)(\d)_")
_ALL: Final = range(8)


@dataclass(frozen=True, slots=True)
class PortView:
    """A port by its name, ``leaf1:swp3``; on a host, ``h1:rx-eth1`` is the drain of its NIC.

    Every counter is returned as a time series. Without a priority, queue or group it is the sum of all eight.
    """

    name: str
    key: tuple[str, str]
    _counted: CounterTables

    def counter(self, name: str) -> Series:
        """Return a counter by its name in ``rocelab counters``, ``rx_prio3_pause``; UsageError if there is none."""
        plain, number = _split(name)
        if number is None:
            return self._of(("ports", "interfaces"), plain, self.key)
        return self._of(("priorities", "queues", "groups"), plain, (*self.key, number))

    @property
    def plain(self) -> bool:
        """Whether this is a port of a plain link, which does not count by priority, queue or group."""
        return self._counted.has("interfaces", self.key)

    def counts(self, measure: Measure) -> bool:
        """Whether it has all counters of a measure of a whole port; recordings of older versions lack some."""
        return self._counted.columns("ports").keys() >= set(measure.counters)

    def series(self, measure: Measure, priority: int | None = None) -> Series:
        """Return the sum of a measure's counters; UsageError if the port does not count them.

        Without a ``priority`` (or queue, or group) all eight are added up. A measure that takes the highest of them
        has no such sum and raises UsageError; use ``value``.
        """
        if priority is None and measure.highest and not self.plain:
            raise UsageError(f"{measure.title} of {self.name} needs a priority", "name one")
        return _total(self._of_measure(measure, priority))

    def value(
        self, measure: Measure, phase: str | RecordingPhase | None = None, priority: int | None = None
    ) -> float:
        """Return the value of a measure in a phase, or over all samples, in the measure's unit.

        Raises like ``series``, and UsageError for an unknown phase. Without a ``priority`` it is the value of the
        whole port: the sum of all eight, or the highest.
        """
        one = priority is not None or not measure.scope.numbered or self.plain
        series = [self.series(measure, number) for number in ([priority] if one else _ALL)]
        windows = series if phase is None else [each.during(phase) for each in series]
        return measure.combine(np.array([window.value(measure) for window in windows]))

    def rx_pause(self, priority: int | None = None) -> Series:
        """Return the number of PFC frames that paused the port."""
        return self._sum("rx_prio{n}_pause", priority)

    def tx_pause(self, priority: int | None = None) -> Series:
        """Return the number of PFC frames with which the port paused its peer."""
        return self._sum("tx_prio{n}_pause", priority)

    def paused(self, priority: int) -> Series:
        """Return the microseconds for which the port was paused."""
        return self.counter(f"rx_prio{priority}_pause_duration")

    def rx_bytes(self, priority: int | None = None) -> Series:
        """Return the bytes received, without FCS."""
        return self._traffic("rx", "bytes", priority)

    def tx_bytes(self, priority: int | None = None) -> Series:
        """Return the bytes sent, without FCS and without PFC frames."""
        return self._traffic("tx", "bytes", priority)

    def rx_packets(self, priority: int | None = None) -> Series:
        """Return the packets received."""
        return self._traffic("rx", "packets", priority)

    def tx_packets(self, priority: int | None = None) -> Series:
        """Return the packets sent."""
        return self._traffic("tx", "packets", priority)

    def depth(self, queue: int | None = None) -> Series:
        """Return the bytes waiting in a queue: a gauge."""
        return self._sum("queue{n}_depth_bytes", queue)

    def marked(self, queue: int | None = None) -> Series:
        """Return the packets marked CE."""
        return self._sum("queue{n}_ecn_marked", queue)

    def drops(self, queue: int | None = None, reason: str = "") -> Series:
        """Return the packets dropped in a queue: for a ``reason`` like ``headroom`` or ``limit``, or for any.

        On a plain link, which has neither queues nor reasons, both directions are added up. UsageError for an unknown
        reason, and for a queue or a reason of a plain link.
        """
        if self.plain:
            if reason:
                raise UsageError(f"{self.name} is a plain link: it counts no reasons of drops", "ask without one")
            return self.series(DROPPED, queue)
        columns = [name for name in self._counted.columns("queues") if re.match(r"queue_drop_.*_packets$", name)]
        reasons = {name.removeprefix("queue_drop_").removesuffix("_packets"): name for name in columns}
        if reason and reason not in reasons:
            raise UsageError(
                f"there is no drop reason {reason!r}", suggest(reason, reasons, f"there is {', '.join(reasons)}")
            )
        wanted = [reasons[reason]] if reason else columns
        return _total(self._sum(name.replace("queue_", "queue{n}_", 1), queue) for name in wanted)

    def _traffic(self, direction: str, unit: str, priority: int | None) -> Series:
        if self.plain:
            self._require_numberless(priority)
            return self.counter(f"{direction}_{unit}")
        return self._sum(f"{direction}_prio{{n}}_{unit}", priority)

    def _sum(self, name: str, number: int | None) -> Series:
        if "{n}" not in name:
            return self.counter(name)
        numbers = _ALL if number is None else [number]
        return _total(self.counter(name.replace("{n}", str(each))) for each in numbers)

    def _of_measure(self, measure: Measure, priority: int | None) -> Iterator[Series]:
        if self.plain:
            self._require_numberless(priority)
            if not measure.links:
                raise UsageError(f"{self.name} is a plain link: it does not count {measure.title}", "see ip -s link")
            yield from (self.counter(name) for name in measure.links)
            return
        for name in measure.counters:
            yield self._sum(name, priority if measure.scope.numbered else None)

    def _require_numberless(self, priority: int | None) -> None:
        if priority is not None:
            raise UsageError(f"{self.name} is a plain link: it has no priorities", "omit the priority")

    def _of(self, tables: Iterable[str], column: str, key: tuple[str | int, ...]) -> Series:
        for table in tables:
            if column in self._counted.columns(table) and self._counted.has(table, self.key):
                return self._counted.series(table, column, key, f"{self.name} {column}")
        known = [name for table in tables for name in self._counted.columns(table)]
        raise UsageError(f"{self.name} has no counter {column}", suggest(column, known, "rocelab counters --names"))


@dataclass(frozen=True, slots=True)
class DeviceView:
    """An RDMA device, or the shared buffer of a node: one row of a table, with counters of its own."""

    name: str
    table: str
    key: tuple[str, ...]
    _counted: CounterTables

    @property
    def counters(self) -> Mapping[str, bool]:
        """Map its counters to whether each is a gauge."""
        return self._counted.columns(self.table)

    def counter(self, name: str) -> Series:
        """Return a counter by its kernel name; UsageError if there is none."""
        if name not in self.counters:
            raise UsageError(f"{self.name} has no counter {name}", suggest(name, self.counters, "see its counters"))
        return self._counted.series(self.table, name, self.key, f"{self.name} {name}")

    def series(self, measure: Measure) -> Series:
        """Return the sum of a measure's counters; UsageError if one does not exist."""
        return _total(self.counter(name) for name in measure.counters)

    def counts(self, measure: Measure) -> bool:
        """Whether it has all counters of a measure."""
        return self.counters.keys() >= set(measure.counters)

    def value(self, measure: Measure, phase: str | RecordingPhase | None = None) -> float:
        """Return the value of a measure in a phase, or over all samples; raises like ``series``."""
        series = self.series(measure)
        return (series if phase is None else series.during(phase)).value(measure)


@lru_cache(maxsize=4096)
def _split(name: str) -> tuple[str, int | None]:
    """Split ``rx_prio3_pause`` into ``rx_prio_pause`` and 3; a diagnosis asks for the same names 20,000 times."""
    found = _NUMBERED.match(name)
    return (name, None) if found is None else (found[1] + name[found.end() - 1 :], int(found[2]))


def _total(parts: Iterable[Series]) -> Series:
    return reduce(add, parts)
