"""Row tables as Parquet, in long form: one file a table, one row a change, with ``ns`` and ``time``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lab.telemetry.store.row_tables import RowColumns, RowSchema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_COMPRESSION: Final = "zstd"
_MOST_ROWS: Final = 20_000_000
"""Maximum number of rows of a table that is read: a small file may declare any number of them.

The size of the file says nothing: rows that repeat at each sample take little more than a bit.
"""
_MOST_AT_ONCE: Final = 1 << 20
"""Maximum number of rows with the same time."""


def write_row_tables(tables: Mapping[str, RowColumns], folder: Path, offset: int) -> None:
    """Write tables into a folder, created if needed; ``offset`` is as in ``parquet.write_tables``.

    OSError if the disk is full.
    """
    for name, table in tables.items():
        folder.mkdir(exist_ok=True)
        columns = {
            "ns": pa.array(table.ns),
            "time": pa.array(table.ns + offset, pa.timestamp("ns", "UTC")),
            **{column: pa.array(table.columns[column], _arrow_type(of)) for column, of in table.schema.columns},
        }
        pq.write_table(pa.table(columns), _file(folder, name), compression=_COMPRESSION)


def read_row_table(folder: Path, schema: RowSchema) -> RowColumns:
    """Read a table; OSError, ValueError (including pyarrow's errors) or KeyError if it is damaged."""
    path = _file(folder, schema.table)
    with pq.ParquetFile(path) as file:
        if (count := file.metadata.num_rows) > _MOST_ROWS:
            raise ValueError(f"{path.name} has {count} rows: at most {_MOST_ROWS} are read")
        ns = _values(file.read(["ns"]).column("ns"), "i8")
        _check_times(path.name, ns)
        found = file.read([name for name, _ in schema.columns])
    columns = {name: _values(found.column(name), of) for name, of in schema.columns}
    return RowColumns(schema, ns, columns)


def _check_times(name: str, ns: NDArray[np.int64]) -> None:
    """Raise ValueError unless the times are in order, and few rows have the same."""
    steps = np.diff(ns)
    if np.any(steps < 0):
        raise ValueError(f"{name} is not in the order of time")
    ends = np.append(np.flatnonzero(steps), len(ns) - 1)
    if (most := int(np.diff(ends, prepend=-1).max())) > _MOST_AT_ONCE:
        raise ValueError(f"{name} has {most} rows at one time: at most {_MOST_AT_ONCE} are read")


def _file(folder: Path, table: str) -> Path:
    return folder / f"{table}.parquet"


def _values(column: pa.ChunkedArray, of: str) -> NDArray[Any]:
    if column.null_count:
        raise ValueError("a column has rows without a value")
    arrow = _arrow_type(of)
    values = column.cast(arrow)
    if pa.types.is_string(arrow):
        coded = values.combine_chunks().dictionary_encode()  # equal texts are one object
        texts: NDArray[Any] = np.array(coded.dictionary.to_pylist(), object)[coded.indices.to_numpy()]
        return texts
    return np.asarray(values.to_numpy(), np.dtype(of))


def _arrow_type(of: str) -> pa.DataType:
    return pa.string() if of.startswith("S") else pa.from_numpy_dtype(np.dtype(of))
