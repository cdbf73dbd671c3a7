"""What the words of a sample are: tables of things, like the queues of all ports, and the columns that each has.

A sample is one row of 64-bit words. A section says where in it a table lies, in the names that operators know
(``lab.dataplane.counter_names`` without the number: ``queue_depth_bytes`` of queue 3), so that a reader needs no
other knowledge of the writer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CounterColumn:
    """A counter: its name, which word of a thing it is, whether it is a gauge, and by what it is divided.

    ``running`` are two words of times between which it grows by itself: a pause that has not ended.
    """

    name: str
    offset: int
    gauge: bool = False
    unit: int = 1
    running: tuple[int, int] | None = None


@dataclass(frozen=True)
class CounterTable:
    """One table. Of each thing in ``names`` there is one row, or one for each number below ``numbers``.

    A thing's words begin at its place, those of its numbers ``stride`` apart.
    """

    table: str
    keys: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    places: tuple[int, ...]
    columns: tuple[CounterColumn, ...]
    numbers: int = 0
    stride: int = 0

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What ``as_data`` gave, after a way through JSON."""
        columns = tuple(
            CounterColumn(**{**column, "running": tuple(column["running"]) if column["running"] else None})
            for column in data["columns"]
        )
        names = tuple(map(tuple, data["names"]))
        fixed = {"keys": tuple(data["keys"]), "names": names, "places": tuple(data["places"]), "columns": columns}
        return cls(**{**data, **fixed})

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @cached_property
    def first_words(self) -> NDArray[np.int64]:
        """Where the words of each row begin."""
        places = np.array(self.places, np.int64)
        if not self.numbers:
            return places
        return (places[:, np.newaxis] + np.arange(self.numbers) * self.stride).ravel()

    @cached_property
    def rows(self) -> tuple[tuple[str | int, ...], ...]:
        """The keys of each row."""
        if not self.numbers:
            return self.names
        return tuple((*name, number) for name in self.names for number in range(self.numbers))

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """All words of each row."""
        offsets = [word for column in self.columns for word in (column.offset, *(column.running or ()))]
        return self.first_words[:, np.newaxis] + np.array(offsets, np.int64)

    def values(self, column: CounterColumn, rows: NDArray[Any], words: Any, ns: NDArray[Any]) -> NDArray[np.uint64]:
        """A column of some ``rows`` at all samples; ``words`` has, for places, what was in them at each."""
        first = self.first_words[rows]
        found: NDArray[np.uint64] = words(first + column.offset)
        if column.running is not None:
            began, until = (words(first + offset) for offset in column.running)
            end = np.minimum(until, ns.astype(np.uint64)[:, np.newaxis])
            found = found + np.where(end > began, end - began, np.uint64(0))
        return found // np.uint64(column.unit) if column.unit != 1 else found
