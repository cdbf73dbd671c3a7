"""Port counters of a block: those of ``rocelab counters`` on lossless ports, of ``ip -s link`` on plain links."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lab.dataplane import counter_baseline, counter_sums, counters
from lab.dataplane.port_maps import open_maps
from lab.errors import UsageError
from lab.kernel.netlink.interfaces import indices
from lab.kernel.netlink.link_stats import FIELDS, LinkStats
from lab.model.values.link_selection import choose_ports, every_port
from lab.model.values.suggest import suggest
from lab.testing.count import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.backends.backend import Fabric

    Values = Mapping[tuple[str, str], Mapping[str, int]]


class BlockCounters:
    """Counters from the beginning of a block to its end, or until now while it runs."""

    def __init__(self, fabric: Fabric, read: Callable[[], Values]) -> None:
        self._fabric = fabric
        self._read = read
        self._ended: Values | None = None

    def count(self, name: str, *ports: str) -> Count:
        """Return a counter's sum over ``ports``, or over all: ``count("drops", "leaf1")``.

        Ports are named as for ``rocelab counters``. ``name`` is drops, pauses, marks, ignored or storms (packets, of
        all queues or priorities), or any of ``rocelab counters --names``, for example ``rx_prio3_pause``. For a gauge
        the maximum is returned. Plain links have the counters of ``ip -s link``: rx_packets, tx_bytes, rx_dropped.
        Raises UsageError for an unknown name or port.
        """
        topology = self._fabric.topology
        wanted = set(counter_sums.counters_of(name)) if topology.qos is not None else {name} & set(FIELDS)
        if not wanted:
            known = counter_sums.known_figures() if topology.qos is not None else FIELDS
            raise UsageError(f"{topology.name} counts no {name!r}", suggest(name, known, "rocelab counters --names"))
        ends = choose_ports(topology, ports) if ports else every_port(topology)
        values = self._ended if self._ended is not None else self._read()
        found = {
            f"{end} {counter}": value
            for end in ends
            for counter, value in values.get((end.node, end.interface), {}).items()
            if counter in wanted and value
        }
        total = max(found.values(), default=0) if counter_sums.is_gauge(name) else sum(found.values())
        most_first = sorted(found.items(), key=lambda item: -item[1])
        where = ", ".join(ports) if ports else "all ports"
        return Count(total, f"{name} of {where}", (f"{place}: {value}" for place, value in most_first))

    def end(self) -> None:
        """End the block: later counts are not included."""
        self._ended = self._read()


@contextlib.contextmanager
def counting(fabric: Fabric) -> Iterator[BlockCounters]:
    """Count for the length of the block. Watermarks are reset, as by ``rocelab counters clear``."""
    with contextlib.ExitStack() as opened:
        read = _lossless(fabric) if fabric.topology.qos is not None else _plain(fabric, opened)
        counted = BlockCounters(fabric, read)
        try:
            yield counted
        finally:
            counted.end()


def _lossless(fabric: Fabric) -> Callable[[], Values]:
    maps = open_maps(fabric.name, writable=True)
    nodes = fabric.numbering.nodes
    mark = counter_baseline.none(len(maps.counters))
    counter_baseline.clear(maps, mark, ((counters.read(maps, node), node.devices) for node in nodes.values()))

    def read() -> Values:
        return {
            (name, device): values
            for name, node in nodes.items()
            for device, values in counters.named(counter_baseline.since(counters.read(maps, node), mark)).items()
        }

    return read


def _plain(fabric: Fabric, opened: contextlib.ExitStack) -> Callable[[], Values]:
    readers: dict[str, tuple[LinkStats, dict[int, str]]] = {}
    for node in fabric.topology.nodes:
        namespace = fabric.namespace(node.name)
        reader = LinkStats(namespace)
        opened.callback(reader.close)
        readers[node.name] = reader, {index: name for name, index in indices(namespace).items()}

    def now() -> dict[tuple[str, str], Any]:
        return {
            (node, names[index]): words.copy()
            for node, (reader, names) in readers.items()
            for index, words in reader.read().items()
            if index in names
        }

    before = now()

    def read() -> Values:
        return {
            key: dict(zip(FIELDS, (words - before[key]).tolist(), strict=True))
            for key, words in now().items()
            if key in before
        }

    return read
