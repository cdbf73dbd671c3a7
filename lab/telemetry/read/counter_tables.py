"""The tables of a recording as cubes of samples, rows and columns, whether they come from Parquet or from its log."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.telemetry.read.measures import OWNER_TABLES
from lab.telemetry.read.series import RecordingClock, Series
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.telemetry.store.parquet import ParquetStore

Key = tuple["str | int", ...]


class CounterTables:
    """What was counted: tables, which are read as they are asked for, and kept."""

    def __init__(self, tables: Mapping[str, Any], source: LogStore | ParquetStore, place: Path) -> None:
        """``tables`` has, by name, the keys of a table, and of its columns whether they are gauges."""
        self._tables = tables
        self._source = source
        self._place = place
        self._columns: dict[tuple[str, str], NDArray[np.uint64]] = {}
        self._rows: dict[str, dict[Key, int]] = {}
        self.clock = RecordingClock(0, {})

    @cached_property
    def samples(self) -> Mapping[str, NDArray[np.int64]]:
        """``ns`` when each sample was taken, ``due`` when it should have been, and ``took`` how long."""
        with self._readable():
            return self._source.samples

    @property
    def tables(self) -> Collection[str]:
        """The names of all tables."""
        return self._tables.keys()

    def columns(self, table: str) -> Mapping[str, bool]:
        """The counters of a table, and of each whether it is a gauge; empty where there is no such table."""
        found: Mapping[str, bool] = self._tables.get(table, {}).get("columns", {})
        return found

    def keys(self, table: str) -> Sequence[Key]:
        """The rows that a table has."""
        return list(self._rows_of(table))

    def has(self, table: str, name: Sequence[str]) -> bool:
        """Whether something of this name is counted there, be it 0 all the time."""
        return table in self._tables and tuple(name) in self._rows_of(OWNER_TABLES.get(table, table))

    def series(self, table: str, column: str, key: Key, name: str) -> Series:
        """One row of one column: 0 all the time where nothing was counted."""
        ns = self.samples["ns"]
        row = self._rows_of(table).get(key)
        values = np.zeros(len(ns), np.uint64) if row is None else self._column(table, column)[:, row]
        return Series(name, ns, values, self.clock, self.columns(table)[column])

    def at(self, table: str, column: str, sample: int) -> NDArray[np.uint64]:
        """A column of all rows, in the order of ``keys``, at one sample, counted from the first."""
        found: NDArray[np.uint64] = self._column(table, column)[sample]
        return found

    def samples_of(self, table: str, column: str, which: slice) -> NDArray[np.uint64]:
        """Some samples of a column: a line for each sample, with its rows in the order of ``keys``."""
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
        ) as error:  # pyarrow's own are ValueErrors
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            raise invalid(self._place, f"is damaged: {said}") from error
