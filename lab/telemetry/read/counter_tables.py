"""The counter tables of a recording as arrays of samples by rows, read from Parquet or from the raw log."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.telemetry.read.series import RecordingClock, Series
from lab.telemetry.read.window_measure import OWNER_TABLES
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.telemetry.store.parquet import ParquetStore

Key = tuple["str | int", ...]


class CounterTables:
    """The counter tables of a recording; each column is read on first access and cached."""

    def __init__(self, tables: Mapping[str, Any], source: LogStore | ParquetStore, place: Path) -> None:
        """``tables`` maps a table's name to its ``keys`` and ``columns``; a column maps to whether it is a gauge."""
        self._tables = tables
        self._source = source
        self._place = place
        self._columns: dict[tuple[str, str], NDArray[np.uint64]] = {}
        self._rows: dict[str, dict[Key, int]] = {}
        self.clock = RecordingClock(0, {})

    @cached_property
    def samples(self) -> Mapping[str, NDArray[np.int64]]:
        """The times of each sample in ns: ``ns`` when taken, ``due`` when due, ``took`` its duration."""
        with self._readable():
            return self._source.samples

    @property
    def tables(self) -> Collection[str]:
        """The names of all tables."""
        return self._tables.keys()

    def columns(self, table: str) -> Mapping[str, bool]:
        """Map each counter of a table to whether it is a gauge; empty if there is no such table."""
        found: Mapping[str, bool] = self._tables.get(table, {}).get("columns", {})
        return found

    def keys(self, table: str) -> Sequence[Key]:
        """Return the keys of all rows of a table."""
        return list(self._rows_of(table))

    def has(self, table: str, name: Sequence[str]) -> bool:
        """Whether the table counts for this name, even if its counters are always 0."""
        return table in self._tables and tuple(name) in self._rows_of(OWNER_TABLES.get(table, table))

    def series(self, table: str, column: str, key: Key, name: str) -> Series:
        """Return the time series of one row of a column; all 0 if the row has no samples."""
        ns = self.samples["ns"]
        row = self._rows_of(table).get(key)
        values = np.zeros(len(ns), np.uint64) if row is None else self._column(table, column)[:, row]
        return Series(name=name, ns=ns, values=values, clock=self.clock, gauge=self.columns(table)[column])

    def at(self, table: str, column: str, sample: int) -> NDArray[np.uint64]:
        """Return a column at one sample: a value for each row, in the order of ``keys``. Samples count from 0."""
        found: NDArray[np.uint64] = self._column(table, column)[sample]
        return found

    def samples_of(self, table: str, column: str, which: slice) -> NDArray[np.uint64]:
        """Return some samples of a column: a line for each sample, its values in the order of ``keys``."""
        found: NDArray[np.uint64] = self._column(table, column)[which]
        return found

    def _rows_of(self, table: str) -> dict[Key, int]:
        if table not in self._tables:
            return {}
        if table not in self._rows:
            with self._readable():
                self._rows[table] = {key: number for number, key in enumerate(self._read_rows(table))}
        return self._rows[table]

    def _read_rows(self, table: str) -> Sequence[Key]:
        if isinstance(self._source, LogStore):
            every = self._source.sections[table].rows
            return [every[row] for row in self._source.rows(table)]
        return self._source.rows(table, self._tables[table]["keys"])

    def _column(self, table: str, column: str) -> NDArray[np.uint64]:
        if (table, column) not in self._columns:
            with self._readable():
                if isinstance(self._source, LogStore):
                    found = self._source.column(table, column)
                else:
                    found = self._source.column(table, column, len(self._rows_of(table)))
            self._columns[table, column] = found
        return self._columns[table, column]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (
            OSError,
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            NotImplementedError,
        ) as error:  # pyarrow's errors are ValueErrors
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            raise invalid(self._place, f"is damaged: {said}") from error
