"""The metrics of a running fabric: reads counters, settings and the last job, and asks all routing daemons."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lab.dataplane import port_maps
from lab.errors import OperationFailed
from lab.kernel.process.process import allow_descriptors
from lab.telemetry.metrics.counter_metrics import CounterMetrics, MetricSamples
from lab.telemetry.metrics.job_metrics import JobMetrics
from lab.telemetry.metrics.metric_families import VIRTUAL_SECONDS, MetricType
from lab.telemetry.metrics.routing_metrics import RoutingMetrics
from lab.telemetry.metrics.setting_metrics import SettingMetrics
from lab.telemetry.sample.sampler_setup import counter_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lab.backends.backend import Fabric
    from lab.telemetry.metrics.counter_metrics import Labels
    from lab.telemetry.sample.sampler import Source
    from lab.telemetry.store.sample_layout import CounterTable

_NS: Final = 10**9
_DESCRIPTORS: Final = 30
"""The most descriptors for each node: its counters, and its daemons."""


class CounterSample:
    """One reading of all counter sources; columns are returned as in recordings."""

    def __init__(self, sources: Sequence[Source], words: NDArray[np.uint64]) -> None:
        self._tables: dict[str, tuple[CounterTable, NDArray[np.uint64]]] = {}
        start = 0
        for source in sources:
            source.read(words[start : start + source.width])
            start += source.width
            for table in source.sections:
                self._tables[table.table] = (table, words)
        self.ns = time.monotonic_ns()
        """Read after the counters, so that no pause begins after it."""

    def column(self, table: str, name: str) -> NDArray[np.uint64]:
        """Return a column: a value for each row of the table."""
        layout, words = self._tables[table]
        column = next(column for column in layout.columns if column.name == name)
        rows = np.arange(len(layout.rows))
        values = layout.values(column, rows, lambda at: words[np.newaxis, at], np.array([self.ns]))
        found: NDArray[np.uint64] = values[0]
        return found


class MetricLedger:
    """Keeps counters from falling between two scrapes.

    A reading of a pause in progress may be slightly too long, so the next one may be lower: the earlier value is
    repeated. The counters of a daemon begin again at 0 when it restarts: its earlier counts are added.
    """

    def __init__(self) -> None:
        self._last: dict[str, dict[Labels, float]] = {}
        self._lost: dict[tuple[str, Labels], float] = {}
        """Counts from before the restarts of a daemon."""

    def grown(self, samples: MetricSamples) -> MetricSamples:
        """Return the samples with counters that have not fallen since earlier calls; gauges are unchanged."""
        family = samples.family
        if family.kind is not MetricType.COUNTER:
            return samples
        last = self._last.setdefault(family.name, {})
        values = []
        for labels, value in zip(samples.labels, samples.values, strict=True):
            known, place = last.get(labels, 0.0), (family.name, labels)
            if family.restarts and value < known:
                self._lost[place] = self._lost.get(place, 0.0) + known
                known = value
            last[labels] = max(value, known)
            values.append(last[labels] + self._lost.get(place, 0.0))
        return MetricSamples(family, samples.labels, values)


class LiveMetrics:
    """All metrics of one fabric, with open sources. OperationFailed once the fabric was taken down."""

    def __init__(self, fabric: Fabric) -> None:
        nodes = len(fabric.topology.nodes)
        allow_descriptors(_DESCRIPTORS * nodes)
        self._fabric = fabric.name
        self._pin = port_maps.Pin.of(fabric.state.journal)
        self._opened = ExitStack()
        self._ledger = MetricLedger()
        with self._opened:
            self._sources = counter_sources(fabric, self._opened)
            self._words = np.zeros(sum(source.width for source in self._sources), np.uint64)
            tables = [table for source in self._sources for table in source.sections]
            self._counters = CounterMetrics(
                {table.table: table.rows for table in tables},
                {table.table: {column.name for column in table.columns} for table in tables},
                fabric.topology,
                fabric.qos,
            )
            overlay = fabric.topology.overlay
            self._routing = RoutingMetrics(
                {node.name: fabric.router(node.name) for node in fabric.topology.switches},
                evpn=overlay is not None and not overlay.plain,
            )
            self._opened.callback(self._routing.close)
            self._settings = SettingMetrics(fabric)
            self._opened.callback(self._settings.close)
            self._jobs = JobMetrics(fabric.state.job_steps)
            self._opened = self._opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def require_live(self) -> None:
        """Raise OperationFailed if the fabric was taken down."""
        if not self._pin.is_there():
            raise OperationFailed(f"fabric {self._fabric} was taken down", "rocelab ls lists running fabrics")

    def scrape(self) -> list[MetricSamples]:
        """Read everything once. Counters never fall from one call to the next."""
        self.require_live()
        try:
            return [self._ledger.grown(samples) for samples in self._look()]
        except OSError:
            self.require_live()
            raise

    def _look(self) -> Iterator[MetricSamples]:
        sample = CounterSample(self._sources, self._words)
        yield MetricSamples(VIRTUAL_SECONDS, [(self._fabric,)], [sample.ns / _NS])
        yield from self._counters.look(sample.column)
        yield from self._routing.look()
        yield from self._settings.look()
        yield from self._jobs.look()
