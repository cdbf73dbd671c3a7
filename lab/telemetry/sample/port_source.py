"""The counters of all emulated ports of a fabric, as words of a sample: copied from mapped memory, no system call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.dataplane.counter_names import COUNTERS as NAMED
from lab.dataplane.counter_names import CounterScope, PortCounter
from lab.dataplane.port_layout import CLASSES, COUNTERS, EVENT, EventKind
from lab.telemetry.store.sample_layout import CounterColumn, CounterTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.dataplane.numbering import Numbering
    from lab.dataplane.port_maps import PortMaps

_WORD: Final = 8
_TABLES: Final = {
    CounterScope.PORT: "ports",
    CounterScope.PRIORITY: "priorities",
    CounterScope.QUEUE: "queues",
    CounterScope.GROUP: "groups",
}
_POOL: Final = ("pool_used", "pool_watermark")


class PortSource:
    """The counters in a fabric's maps; the words of ports come first, then those of the nodes' pools."""

    def __init__(self, maps: PortMaps, numbering: Numbering, start: int) -> None:
        self._maps = maps
        self._counters = _words_of(maps.ports)[:, _first_word(maps) : _first_word(maps) + COUNTERS.itemsize // _WORD]
        self._width = self._counters.shape[1]
        self._pools = len(self._counters) * self._width
        self.width = self._pools + len(_POOL) * len(maps.nodes)
        self.sections = tuple(self._sections(numbering, start))

    def read(self, words: NDArray[np.uint64]) -> None:
        """Copy all counters into ``words``."""
        words[: self._pools].reshape(self._counters.shape)[:] = self._counters
        for number, name in enumerate(_POOL):
            words[self._pools + number :: len(_POOL)] = self._maps.nodes[name]

    def is_live(self) -> bool:
        """Whether the fabric still exists: its memory outlives it, and then no longer changes."""
        return self._maps.pin is None or self._maps.pin.is_there()

    def close(self) -> None:
        """Do nothing: there are no descriptors to close."""

    def _sections(self, numbering: Numbering, start: int) -> list[CounterTable]:
        names, places = [], []
        for name, node in numbering.nodes.items():
            for number, device in enumerate(node.devices):
                names.append((name, device))
                places.append(start + (node.first + 1 + number) * self._width)
        found = [_section(scope, tuple(names), tuple(places)) for scope in CounterScope]
        pools = start + self._pools
        columns = tuple(CounterColumn(name, number, gauge=True) for number, name in enumerate(_POOL))
        nodes = tuple((name,) for name in numbering.nodes)
        numbers = (pools + node.number * len(_POOL) for node in numbering.nodes.values())
        return [
            *found,
            CounterTable(table="nodes", keys=("node",), names=nodes, places=tuple(numbers), columns=columns),
        ]


def describe_events(numbering: Numbering) -> dict[str, Any]:
    """Return the layout of records in the ports' event log, and the names of port ids."""
    return {
        "record": [[name, *_formatted(EVENT, name)] for name in EVENT.names or ()],
        "size": EVENT.itemsize,
        "kinds": {kind.value: kind.name.lower() for kind in EventKind},
        "ports": {port: list(names) for port, names in numbering.names.items()},
    }


def _formatted(record: np.dtype[Any], name: str) -> tuple[str, int]:
    assert record.fields is not None  # noqa: S101 - it is a record
    kind, offset, *_ = record.fields[name]
    return kind.str, offset


def _words_of(records: NDArray[Any]) -> NDArray[np.uint64]:
    words: NDArray[np.uint64] = records.view(np.uint64).reshape(len(records), -1)
    return words


def _first_word(maps: PortMaps) -> int:
    fields = maps.ports.dtype.fields
    assert fields is not None  # noqa: S101 - it is a record
    return int(fields["counters"][1]) // _WORD


def _section(scope: CounterScope, names: tuple[tuple[str, str], ...], places: tuple[int, ...]) -> CounterTable:
    if scope is CounterScope.PORT:
        columns = tuple(_column(counter, COUNTERS, 0) for counter in NAMED if counter.scope is scope)
        return CounterTable(
            table=_TABLES[scope], keys=("node", "interface"), names=names, places=places, columns=columns
        )
    block, start = _field(COUNTERS, scope.value)
    record = block.base
    columns = tuple(_column(counter, record, start) for counter in NAMED if counter.scope is scope)
    keys = ("node", "interface", scope.value)
    return CounterTable(
        table=_TABLES[scope],
        keys=keys,
        names=names,
        places=places,
        columns=columns,
        numbers=CLASSES,
        stride=record.itemsize // _WORD,
    )


def _column(counter: PortCounter, record: np.dtype[Any], start: int) -> CounterColumn:
    _, offset = _field(record, counter.field)
    place = start + offset + (counter.reason or 0)
    running = None
    if counter.field == "paused_ns":
        running = start + _field(record, "paused_from")[1], start + _field(record, "paused_until")[1]
    return CounterColumn(
        name=plain(counter.name), offset=place, gauge=counter.gauge, unit=counter.unit, running=running
    )


def plain(name: str) -> str:
    """Return the name of a counter without its number's placeholder."""
    return name.replace("{n}", "")


def _field(record: np.dtype[Any], name: str) -> tuple[np.dtype[Any], int]:
    """Return the type of a field, and its offset in words."""
    assert record.fields is not None  # noqa: S101 - it is a record
    kind, offset, *_ = record.fields[name]
    return kind, offset // _WORD
