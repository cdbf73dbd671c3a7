"""The layout of a sample: tables, for example of the queues of all ports, and the columns of each.

A sample is one row of 64-bit words. The layout gives the position of each table in it, with the operator's names
(``lab.dataplane.counter_names`` without the number: ``queue_depth_bytes`` of queue 3). So a reader needs no other
knowledge of the writer.
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
    """A counter: its name, its word within an object, whether it is a gauge, and its divisor.

    ``running`` are two words with the start and end time of a pause in progress: the counter grows between the two.
    """

    name: str
    offset: int
    gauge: bool = False
    unit: int = 1
    running: tuple[int, int] | None = None


@dataclass(frozen=True)
class CounterTable:
    """One table, with a row for each of ``names``, or for each name and number below ``numbers``.

    The words of an object begin at its place; those of its numbers are ``stride`` apart.
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
        """Build a table from the JSON of ``as_data``."""
        columns = tuple(
            CounterColumn(**{**column, "running": tuple(column["running"]) if column["running"] else None})
            for column in data["columns"]
        )
        names = tuple(map(tuple, data["names"]))
        fixed = {"keys": tuple(data["keys"]), "names": names, "places": tuple(data["places"]), "columns": columns}
        return cls(**{**data, **fixed})

    def as_data(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return asdict(self)

    @cached_property
    def first_words(self) -> NDArray[np.int64]:
        """The index of each row's first word."""
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
        """The indices of all words of each row."""
        offsets = [word for column in self.columns for word in (column.offset, *(column.running or ()))]
        return self.first_words[:, np.newaxis] + np.array(offsets, np.int64)

    def values(self, column: CounterColumn, rows: NDArray[Any], words: Any, ns: NDArray[Any]) -> NDArray[np.uint64]:
        """Return a column of some ``rows`` at all samples; ``words`` maps word indices to values at each sample."""
        first = self.first_words[rows]
        found: NDArray[np.uint64] = words(first + column.offset)
        if column.running is not None:
            began, until = (words(first + offset) for offset in column.running)
            end = np.minimum(until, ns.astype(np.uint64)[:, np.newaxis])
            found = found + np.where(end > began, end - began, np.uint64(0))
        return found // np.uint64(column.unit) if column.unit != 1 else found
