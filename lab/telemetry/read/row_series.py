"""A row table of a recording: a series for each object, with times of its own.

::

    for key, series in recording.table("queue_pairs"):
        print(key, series.seconds, series.column("state"))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.errors import UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.telemetry.read.series import RecordingClock
    from lab.telemetry.store.row_tables import RowColumns

RowKey = tuple["str | int", ...]


@dataclass(frozen=True, eq=False)
class RowSeries:
    """The rows of one object, ordered by time: ``ns`` of CLOCK_MONOTONIC of each, and the values of its columns."""

    key: RowKey
    ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    clock: RecordingClock

    def __len__(self) -> int:
        return len(self.ns)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """The time of each row, in seconds since the recording began."""
        found: NDArray[np.float64] = (self.ns - self.clock.start) / 10**9
        return found

    def column(self, name: str) -> NDArray[Any]:
        """Return a column: a value for each row. UsageError if there is no such column."""
        if name not in self.columns:
            raise UsageError(f"there is no column {name}", suggest(name, self.columns, "see its columns"))
        return self.columns[name]


class RowTable:
    """A row table; iterating yields the key and series of each object, in the order of appearance."""

    def __init__(self, rows: RowColumns, clock: RecordingClock) -> None:
        self.rows = rows
        self._clock = clock

    def __iter__(self) -> Iterator[tuple[RowKey, RowSeries]]:
        for key in self.keys:
            yield key, self.series(key)

    @property
    def keys(self) -> Sequence[RowKey]:
        """The keys of all objects that ever existed, in the order of appearance."""
        return list(self._places)

    def series(self, key: RowKey) -> RowSeries:
        """Return the rows of an object; UsageError if it never existed."""
        if key not in self._places:
            known = [":".join(map(str, each)) for each in self._places]
            named = ":".join(map(str, key))
            remedy = suggest(named, known, f"there is {', '.join(known) or 'none'}")
            raise UsageError(f"table {self.rows.schema.table} has no {named}", remedy)
        places = np.array(self._places[key])
        keys = self.rows.schema.keys
        values = [name for name, _ in self.rows.schema.columns[keys:]]
        return RowSeries(
            key=key,
            ns=self.rows.ns[places],
            columns={name: self.rows.columns[name][places] for name in values},
            clock=self._clock,
        )

    @cached_property
    def _places(self) -> dict[RowKey, list[int]]:
        names = [name for name, _ in self.rows.schema.columns[: self.rows.schema.keys]]
        found: dict[RowKey, list[int]] = {}
        for place, key in enumerate(zip(*(self.rows.columns[name].tolist() for name in names), strict=True)):
            found.setdefault(key, []).append(place)
        return found
