"""Metric samples from the counters of ports, links and RDMA devices, live ones or those of a recording.

Labels are computed once for each row of a table. A scrape then only reads columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.dataplane.numbering import drained_interface
from lab.model.qos.port import members
from lab.telemetry.metrics.metric_families import FAMILIES, INTERFACE, NUMBER, RDMA_DEVICE, MetricOwner
from lab.telemetry.read.window_measure import MeasureScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.topology import Topology
    from lab.telemetry.metrics.metric_families import MetricFamily, MetricPart

    Key = tuple[str | int, ...]

Labels = tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class MetricSamples:
    """The samples of a family: label values in the order of ``MetricFamily.label_names``, and a value for each."""

    family: MetricFamily
    labels: Sequence[Labels]
    values: Sequence[float]


def as_samples(values: Iterable[tuple[MetricFamily, Labels, float]]) -> Iterator[MetricSamples]:
    """Yield the values as samples of each family, in the order in which families first appear."""
    found: dict[str, tuple[MetricFamily, list[Labels], list[float]]] = {}
    for family, labels, value in values:
        _, known, numbers = found.setdefault(family.name, (family, [], []))
        known.append(labels)
        numbers.append(value)
    for samples in found.values():
        yield MetricSamples(*samples)


@dataclass(frozen=True, eq=False, slots=True)
class CountedPart:
    """A part of a family with its series: labels, and the rows of the table that belong to each.

    ``lasting`` marks series that are always shown. Others become so when they count for the first time: most ports
    never use most of their priorities, but a gauge that falls to 0 stays.
    """

    part: MetricPart
    labels: tuple[Labels, ...]
    rows: NDArray[np.int64]
    """The rows of the first series, then those of the second, and so on."""
    starts: NDArray[np.int64]
    """The place of each series in ``rows``."""
    lasting: NDArray[np.bool_]

    def values(self, column: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the value of each series, unscaled, from a column of the table."""
        if not len(self.rows):
            return np.zeros(0, np.uint64)
        found: NDArray[np.uint64] = np.add.reduceat(column[self.rows], self.starts)
        return found


class CounterMetrics:
    """The families of a fabric's counters. Families without a counter in the tables are absent."""

    def __init__(
        self,
        rows: Mapping[str, Sequence[Key]],
        columns: Mapping[str, set[str]],
        topology: Topology,
        qos: Mapping[str, NodeQos],
    ) -> None:
        """``rows`` has the keys of each table's rows, ``columns`` its counters."""
        self._switches = {node.name for node in topology.switches}
        self._qos = qos
        devices = rows.get(MeasureScope.DEVICE.table, ())
        self._devices = {(str(node), str(interface)): str(device) for node, interface, device in devices}
        self._families: list[tuple[MetricFamily, list[CountedPart]]] = []
        for family in FAMILIES:
            parts = [part for part in family.parts if part.column in columns.get(part.table, ())]
            found = [self._counted(family, part, rows[part.table]) for part in parts]
            if any(part.labels for part in found):
                self._families.append((family, found))

    @property
    def parts(self) -> Iterator[tuple[MetricFamily, CountedPart]]:
        """Each part with its family."""
        for family, parts in self._families:
            for part in parts:
                yield family, part

    def look(self, column: Callable[[str, str], NDArray[np.uint64]]) -> Iterator[MetricSamples]:
        """Yield the samples of each family; ``column`` returns a table's column, with a value for each row."""
        for family, parts in self._families:
            labels: list[Labels] = []
            values: list[float] = []
            for part in parts:
                counts = part.values(column(part.part.table, part.part.column))
                np.logical_or(part.lasting, counts > 0, out=part.lasting)
                shown = np.flatnonzero(part.lasting)
                labels += [part.labels[number] for number in shown.tolist()]
                values += scaled(counts[shown], part.part.scale)
            if labels:
                yield MetricSamples(family, labels, values)

    def _counted(self, family: MetricFamily, part: MetricPart, rows: Sequence[Key]) -> CountedPart:
        found: dict[Labels, list[int]] = {}
        lasting: dict[Labels, bool] = {}
        for row, key in enumerate(rows):
            labels = self._labels(family, part, key)
            if labels is not None:
                found.setdefault(labels, []).append(row)
                lasting[labels] = self._is_lasting(part, key)
        sizes = np.array([len(each) for each in found.values()], np.int64)
        return CountedPart(
            part=part,
            labels=tuple(found),
            rows=np.array([row for each in found.values() for row in each], np.int64),
            starts=np.cumsum(sizes) - sizes,
            lasting=np.array(list(lasting.values()), bool),
        )

    def _labels(self, family: MetricFamily, part: MetricPart, key: Key) -> Labels | None:
        """Return the labels of a row; None if the family does not have the row."""
        node, interface = str(key[0]), str(key[1])
        of_switch = node in self._switches
        if drained_interface(interface) != interface or family.owner is _ELSEWHERE[of_switch]:
            return None
        port = self._port(node, interface)
        if family.of_cc and (port is None or port.cc is None):
            return None
        row = {INTERFACE: interface, NUMBER: str(key[-1]), RDMA_DEVICE: self._devices.get((node, interface), "")}
        values = [row.get(value, value) for value in family.labels.values()]
        return (node, *values, *part.values) if all(values) else None

    def _port(self, node: str, interface: str) -> PortQos | None:
        found = self._qos.get(node)
        return None if found is None else found.ports.get(interface)

    def _is_lasting(self, part: MetricPart, key: Key) -> bool:
        """Whether a series is shown even if it has never counted: of numbers, those that are lossless."""
        port = self._port(str(key[0]), str(key[1]))
        if part.total or part.table not in _LOSSLESS:
            return True
        return port is not None and key[-1] in _LOSSLESS[part.table](port)


_ELSEWHERE: Final = {True: MetricOwner.HOSTS, False: MetricOwner.SWITCHES}
_LOSSLESS: Final[Mapping[str, Callable[[PortQos], tuple[int, ...]]]] = {
    MeasureScope.PRIORITY.table: lambda port: members(port.pfc.priorities),
    MeasureScope.QUEUE.table: lambda port: members(port.lossless_queues),
    MeasureScope.GROUP.table: lambda port: members(port.lossless_groups),
}
"""The lossless numbers of a port, by table."""


def scaled(counts: NDArray[np.uint64], scale: float) -> list[float]:
    """Return counts in the family's unit; whole numbers stay exact."""
    found: list[float] = counts.tolist() if scale == 1.0 else (counts * scale).tolist()
    return found
