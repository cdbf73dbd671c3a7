"""Recordings as Parquet: written from a log and read back, one file a table.

Each sample has a row for each port, queue or device, with a column for each counter: pandas, polars and DuckDB read
this layout directly. Columns that do not change, which are most, cost little, because Parquet stores runs. A row for
each counter would take forty times as many rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.telemetry.store.log_store import LogStore, SampleWindow
    from lab.telemetry.store.sample_layout import CounterTable

SAMPLES: Final = "samples"
_WINDOW: Final = 32 << 20
"""Bytes of samples held in memory at a time."""
_COMPRESSION: Final = "zstd"
_VALUE: Final = 8
"""Bytes of a value in memory."""
_SHARE: Final = 4
"""The share of this machine's memory that a column may take, as 1/n: a small file may declare any number of rows."""
_MOST_KEYS: Final = 1 << 20
"""Maximum number of rows of one sample."""


def write_tables(log: LogStore, folder: Path, offset: int) -> None:
    """Write all tables of a log; ``offset`` is the caller's clock minus CLOCK_MONOTONIC, in ns.

    OSError if the disk is full.
    """
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        for table, section in log.sections.items():
            schema = pa.schema([*_keys(section), *((column.name, pa.uint64()) for column in section.columns)])
            writers[table] = pq.ParquetWriter(folder / f"{table}.parquet", schema, compression=_COMPRESSION)
        for window in log.windows(_WINDOW):
            for table, section in log.sections.items():
                if len(rows := log.rows(table)):
                    writers[table].write_table(_rows(section, rows, window, offset, writers[table].schema))
    finally:
        for writer in writers.values():
            writer.close()
    times = log.samples
    columns: dict[str, Any] = {**times, "late": times["ns"] - times["due"]}
    pq.write_table(pa.table(columns), folder / f"{SAMPLES}.parquet", compression=_COMPRESSION)


def _keys(section: CounterTable) -> list[tuple[str, pa.DataType]]:
    names = pa.dictionary(pa.int32(), pa.string())
    time: list[tuple[str, pa.DataType]] = [("ns", pa.int64()), ("time", pa.timestamp("ns", "UTC"))]
    kinds = [names] * len(section.names[0] if section.names else section.keys)
    kinds += [pa.uint8()] * (len(section.keys) - len(kinds))
    return [*time, *zip(section.keys, kinds, strict=True)]


def _rows(
    section: CounterTable, rows: NDArray[Any], window: SampleWindow, offset: int, schema: pa.Schema
) -> pa.Table:
    count = len(window.ns)
    ns = np.repeat(window.ns, len(rows))
    names = zip(*(section.rows[row] for row in rows), strict=True)
    columns = [
        pa.array(ns),
        pa.array(ns + offset, pa.timestamp("ns", "UTC")),
        *(_key(key, count) for key in names),
        *(pa.array(section.values(column, rows, window.words, window.ns).ravel()) for column in section.columns),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _key(values: Sequence[str | int], count: int) -> pa.Array:
    if isinstance(values[0], int):
        return pa.array(np.tile(np.array(values, np.uint8), count))
    names = list(dict.fromkeys(values))
    places = {name: number for number, name in enumerate(names)}
    indices = np.tile(np.array([places[value] for value in values], np.int32), count)
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names))


def _most_rows() -> int:
    """Return the number of rows of a table that this machine has the memory to read."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return memory // _SHARE // _VALUE


class ParquetStore:
    """The tables of a complete recording, read a column at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._metadata: dict[str, pq.FileMetaData] = {}
        self._rows: dict[str, list[tuple[str | int, ...]]] = {}
        self._taken = 0
        times = self._read(SAMPLES, ["ns", "due", "took"])
        self._taken = len(times[0])
        self.samples = {
            name: column.to_numpy().astype(np.int64)
            for name, column in zip(("ns", "due", "took"), times, strict=True)
        }

    def rows(self, table: str, keys: Sequence[str]) -> list[tuple[str | int, ...]]:
        """Return the keys of each row of a table; they are the same in every sample."""
        if table not in self._rows:
            columns = self._read(table, keys)
            count = self._metadata[table].num_rows // max(1, self._taken)
            self._rows[table] = list(zip(*(column[:count].to_pylist() for column in columns), strict=True))
        return self._rows[table]

    def column(self, table: str, name: str, rows: int) -> NDArray[np.uint64]:
        """Return all values of a column: for each sample, those of its ``rows``."""
        (column,) = self._read(table, [name])
        found: NDArray[np.uint64] = column.to_numpy().astype(np.uint64).reshape(len(self.samples["ns"]), rows)
        return found

    def _read(self, table: str, columns: Sequence[str]) -> list[pa.ChunkedArray]:
        """Read columns of a table; ValueError if its rows are too many, or not as many in each sample."""
        path = self._folder / f"{table}.parquet"
        # read_table opens a dataset, starts threads and reads the metadata for each column: several times as long.
        with pq.ParquetFile(path, metadata=self._metadata.get(table)) as file:
            self._metadata[table] = file.metadata
            count = int(file.metadata.num_rows)
            most = path.stat().st_size if table == SAMPLES else min(self._taken * _MOST_KEYS, _most_rows())
            if count > most:
                raise ValueError(f"{path.name} has {count} rows: at most {most} are read")
            if self._taken and count % self._taken:
                raise ValueError(f"{path.name} has {count} rows, and there are {self._taken} samples")
            found = file.read(columns=list(columns), use_threads=False)
        return [found.column(name) for name in columns]
