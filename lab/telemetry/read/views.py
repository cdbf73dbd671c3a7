"""What a recording has counters of, as a check asks for them: ports, RDMA devices, nodes.

::

    recording.port("leaf1:swp3").rx_pause(priority=3).during("inject").delta()
    recording.rdma("h1:eth1").counter("out_of_seq_request").delta()
    recording.port("leaf1:swp3").value(measures.PAUSED, "inject", priority=3)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.errors import UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.telemetry.read.counter_tables import CounterTables
    from lab.telemetry.read.measures import Measure
    from lab.telemetry.read.series import RecordingPhase, Series

_NUMBERED: Final = re.compile(r"^((?:rx|tx)_prio|queue|pg)(\d)_")
_ALL: Final = range(8)


@dataclass(frozen=True, slots=True)
class PortView:
    """A port by its name, ``leaf1:swp3``; of a host ``h1:rx-eth1`` is what drains its NIC.

    Without a priority, queue or group it is the sum of all eight.
    """

    name: str
    key: tuple[str, str]
    _counted: CounterTables

    def counter(self, name: str) -> Series:
        """A counter as ``rocelab counters`` names it, ``rx_prio3_pause``; UsageError when there is none."""
        found = _NUMBERED.match(name)
        if found is None:
            return self._of(("ports", "interfaces"), name, self.key)
        plain = _NUMBERED.sub(r"\1_", name)
        return self._of(("priorities", "queues", "groups"), plain, (*self.key, int(found[2])))

    @property
    def plain(self) -> bool:
        """Whether it is a port of a plain link, which counts no priorities, queues and groups."""
        return self._counted.has("interfaces", self.key)

    def series(self, measure: Measure, priority: int | None = None) -> Series:
        """The counters of a measure, added up; UsageError where the port does not count them.

        Without a ``priority`` (or queue, or group) those of all eight are added, too. A measure of which the highest
        counts has no such sum: it is a UsageError, and ``value`` reduces it.
        """
        if priority is None and measure.highest and not self.plain:
            raise UsageError(f"{measure.title} of {self.name} is of a priority", "name one")
        return _total(self._of_measure(measure, priority))

    def value(
        self, measure: Measure, phase: str | RecordingPhase | None = None, priority: int | None = None
    ) -> float:
        """The value of a measure in a phase, or over all samples, in the measure's unit.

        UsageError as of ``series``, and where there is no such phase. Without a ``priority`` it is of the whole port:
        the sum of all eight, or the highest.
        """
        one = priority is not None or not measure.scope.numbered or self.plain
        series = [self.series(measure, number) for number in ([priority] if one else _ALL)]
        windows = series if phase is None else [each.during(phase) for each in series]
        return measure.combine(np.array([window.value(measure) for window in windows]))

    def rx_pause(self, priority: int | None = None) -> Series:
        """PFC frames that paused it."""
        return self._sum("rx_prio{n}_pause", priority)

    def tx_pause(self, priority: int | None = None) -> Series:
        """PFC frames by which it paused its peer."""
        return self._sum("tx_prio{n}_pause", priority)

    def paused(self, priority: int) -> Series:
        """Microseconds that it was paused."""
        return self.counter(f"rx_prio{priority}_pause_duration")

    def rx_bytes(self, priority: int | None = None) -> Series:
        """Bytes received, without FCS."""
        return self._traffic("rx", "bytes", priority)

    def tx_bytes(self, priority: int | None = None) -> Series:
        """Bytes sent, without FCS; PFC frames are not among them."""
        return self._traffic("tx", "bytes", priority)

    def rx_packets(self, priority: int | None = None) -> Series:
        """Packets received."""
        return self._traffic("rx", "packets", priority)

    def tx_packets(self, priority: int | None = None) -> Series:
        """Packets sent."""
        return self._traffic("tx", "packets", priority)

    def depth(self, queue: int | None = None) -> Series:
        """Bytes that wait in a queue: a gauge."""
        return self._sum("queue{n}_depth_bytes", queue)

    def marked(self, queue: int | None = None) -> Series:
        """Packets marked CE."""
        return self._sum("queue{n}_ecn_marked", queue)

    def drops(self, queue: int | None = None, reason: str = "") -> Series:
        """Packets dropped in a queue: for a ``reason``, as ``headroom`` and ``limit``, or for any."""
        columns = [name for name in self._counted.columns("queues") if re.match(r"queue_drop_.*_packets$", name)]
        reasons = {name.removeprefix("queue_drop_").removesuffix("_packets"): name for name in columns}
        if reason and reason not in reasons:
            raise UsageError(
                f"nothing is dropped for {reason!r}", suggest(reason, reasons, f"there is {', '.join(reasons)}")
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
            raise UsageError(f"{self.name} is a plain link: it has no priorities", "ask without one")

    def _of(self, tables: Iterable[str], column: str, key: tuple[str | int, ...]) -> Series:
        for table in tables:
            if column in self._counted.columns(table) and self._counted.has(table, self.key):
                return self._counted.series(table, column, key, f"{self.name} {column}")
        known = [name for table in tables for name in self._counted.columns(table)]
        raise UsageError(f"{self.name} has no counter {column}", suggest(column, known, "rocelab counters --names"))


@dataclass(frozen=True, slots=True)
class DeviceView:
    """An RDMA device, or a node's pool: one table's row, whose counters have names of their own."""

    name: str
    table: str
    key: tuple[str, ...]
    _counted: CounterTables

    @property
    def counters(self) -> Mapping[str, bool]:
        """What it counts, and of each whether it is a gauge."""
        return self._counted.columns(self.table)

    def counter(self, name: str) -> Series:
        """A counter by its name in the kernel; UsageError when there is none."""
        if name not in self.counters:
            raise UsageError(f"{self.name} has no counter {name}", suggest(name, self.counters, "see its counters"))
        return self._counted.series(self.table, name, self.key, f"{self.name} {name}")

    def series(self, measure: Measure) -> Series:
        """The counters of a measure, added up; UsageError where there is none."""
        return _total(self.counter(name) for name in measure.counters)

    def counts(self, measure: Measure) -> bool:
        """Whether it has the counters of a measure."""
        return self.counters.keys() >= set(measure.counters)

    def value(self, measure: Measure, phase: str | RecordingPhase | None = None) -> float:
        """The value of a measure in a phase, or over all samples; UsageError as of ``series``."""
        series = self.series(measure)
        return (series if phase is None else series.during(phase)).value(measure)


def _total(parts: Iterable[Series]) -> Series:
    return reduce(add, parts)
