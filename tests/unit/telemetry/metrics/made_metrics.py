"""The metrics of a fabric's ports that nobody built: the maps are arrays, and RDMA devices have counters as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lab.dataplane import counters as counting
from lab.dataplane.numbering import number_ports
from lab.model.qos.resolve import resolve
from lab.rdma.device_counters import MEANINGS
from lab.telemetry.metrics.counter_metrics import CounterMetrics
from lab.telemetry.metrics.live_metrics import CounterSample
from lab.telemetry.sample.port_source import PortSource
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable
from tests.unit.dataplane.made_maps import configured

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from lab.model.topology import Topology
    from lab.telemetry.metrics.counter_metrics import Labels

Series = dict[tuple[str, "Labels"], float]
"""Values by family and labels."""


class MadeDevices:
    """RDMA devices whose counters are an array of the test's own, a row for each host."""

    def __init__(self, hosts: list[str], start: int) -> None:
        self.counted = np.zeros((len(hosts), len(MEANINGS)), np.uint64)
        self.width = self.counted.size
        names = tuple((host, "eth1", f"t.{host}.eth1") for host in hosts)
        places = tuple(start + number * len(MEANINGS) for number in range(len(hosts)))
        columns = tuple(CounterColumn(name, number) for number, name in enumerate(MEANINGS))
        self.sections = (CounterTable("rdma", ("node", "interface", "device"), names, places, columns),)

    def read(self, words: NDArray[np.uint64]) -> None:
        """As a source does."""
        words[:] = self.counted.ravel()

    def close(self) -> None:
        """Nothing is open."""


class MadeFabric:
    """Maps, devices, and what the metrics say of both."""

    def __init__(self, topology: Topology) -> None:
        self.maps = configured(topology)
        self.numbering = number_ports(topology)
        ports = PortSource(self.maps, self.numbering, 0)
        self.devices = MadeDevices([host.name for host in topology.hosts if host.rdma], ports.width)
        self._sources: tuple[PortSource, MadeDevices] = (ports, self.devices)
        tables = [table for source in self._sources for table in source.sections]
        self.metrics = CounterMetrics(
            {table.table: table.rows for table in tables},
            {table.table: {column.name for column in table.columns} for table in tables},
            topology,
            resolve(topology),
        )

    def counters(self, end: str) -> Any:
        """The counters of a port, to be written."""
        node, _, interface = end.partition(":")
        return self.maps.counters[self.numbering.nodes[node].port(interface)]

    @property
    def words(self) -> NDArray[np.uint64]:
        """All counters of ports, to be written: a row for each port."""
        return self._sources[0]._counters

    def named(self) -> dict[tuple[str, str], dict[str, int]]:
        """What ``rocelab counters --all`` shows now, by node and interface."""
        return {
            (name, interface): values
            for name, node in self.numbering.nodes.items()
            for interface, values in counting.named(counting.read(self.maps, node), zeros=True).items()
        }

    def scrape(self) -> Series:
        """All series."""
        sample = CounterSample(self._sources, np.zeros(sum(source.width for source in self._sources), np.uint64))
        return {
            (samples.family.name, labels): value
            for samples in self.metrics.look(sample.column)
            for labels, value in zip(samples.labels, samples.values, strict=True)
        }
