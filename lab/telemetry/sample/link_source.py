"""The counters of plain links' interfaces, as words of a sample: one request a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kernel.netlink.interfaces import indices
from lab.kernel.netlink.link_stats import FIELDS, LinkStats
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lab.kernel.process.netns import Namespace


class LinkSource:
    """The counters of named interfaces in some namespaces; an interface that is gone keeps its last values."""

    def __init__(self, wanted: Mapping[str, tuple[Namespace, Sequence[str]]], start: int) -> None:
        """``wanted`` maps a node to its namespace and interfaces; OperationFailed if a namespace is gone."""
        self._readers: list[tuple[LinkStats, dict[int, int]]] = []
        names: list[tuple[str, str]] = []
        for node, (namespace, interfaces) in wanted.items():
            known = indices(namespace)
            places = {}
            for interface in interfaces:
                if interface in known:
                    places[known[interface]] = len(names) * len(FIELDS)
                    names.append((node, interface))
            self._readers.append((LinkStats(namespace), places))
        self.width = len(names) * len(FIELDS)
        begins = tuple(start + number * len(FIELDS) for number in range(len(names)))
        columns = tuple(CounterColumn(name, number) for number, name in enumerate(FIELDS))
        self.sections = (
            CounterTable(
                table="interfaces", keys=("node", "interface"), names=tuple(names), places=begins, columns=columns
            ),
        )

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that must stay open."""
        return [reader.socket.fileno() for reader, _ in self._readers]

    def read(self, words: NDArray[np.uint64]) -> None:
        """Read all counters into ``words``, which hold the previous values."""
        for reader, places in self._readers:
            for index, counted in reader.read().items():
                if (place := places.get(index)) is not None:
                    words[place : place + len(FIELDS)] = counted

    def close(self) -> None:
        """Close all sockets."""
        for reader, _ in self._readers:
            reader.close()
