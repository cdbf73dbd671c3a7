"""Row tables: tables that grow during a recording, for objects that appear and disappear, like queue pairs.

Counter tables have a fixed set of rows, and a value of each for every sample. A row table has a row, with a time of
its own, for each change. Each of its frames in the log describes the columns, so a table may begin at any time::

    length of the description (2 bytes, little endian) | description (JSON) | rows, packed

The content is untrusted: a description that no recorder writes is a ValueError.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

_LENGTH: Final = struct.Struct("<H")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TYPE: Final = re.compile(r"[iu][1248]|f[48]|S([1-9]\d{0,2})")
_TEXT: Final = "S"
_MOST_TEXT: Final = 256
"""Maximum length of a text, in bytes."""
_MOST_COLUMNS: Final = 64
_MOST_TABLES: Final = 64
_TIMES: Final = ("ns", "time")
"""Columns that every table has."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """A table's name, and its columns with their NumPy types; the first ``keys`` columns identify the object."""

    table: str
    keys: int
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Build a schema from the JSON of ``as_data``; ValueError if no recorder writes it."""
        if not isinstance(data, dict) or not _is_name(data.get("table")):
            raise ValueError("a table of rows has no name")
        table, keys, columns = data["table"], data.get("keys"), data.get("columns")
        if not isinstance(columns, list) or not 1 <= len(columns) <= _MOST_COLUMNS:
            raise ValueError(f"table {table} has no columns, or too many")
        found = tuple((each[0], each[1]) if _is_column(each) else ("", "") for each in columns)
        names = [name for name, _ in found]
        if "" in names or len({*names, *_TIMES}) != len(names) + len(_TIMES):
            raise ValueError(f"table {table} has a column of an unknown name or type")
        if type(keys) is not int or not 1 <= keys <= len(found):
            raise ValueError(f"table {table} has no keys")
        return cls(table, keys, found)

    def as_data(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        return {"table": self.table, "keys": self.keys, "columns": [list(each) for each in self.columns]}

    @property
    def record(self) -> np.dtype[Any]:
        """The NumPy type of a row: packed, little endian."""
        return np.dtype([(name, of if of.startswith(_TEXT) else f"<{of}") for name, of in self.columns])

    @property
    def texts(self) -> frozenset[str]:
        """The text columns."""
        return frozenset(name for name, of in self.columns if of.startswith(_TEXT))

    def pack(self, rows: Iterable[Mapping[str, Any]]) -> bytes:
        """Encode rows as a frame's content; a row maps column names to values. Text that is too long is cut."""
        every = list(rows)
        packed = np.zeros(len(every), self.record)
        for number, row in enumerate(every):
            for name, of in self.columns:
                packed[name][number] = row[name].encode() if of.startswith(_TEXT) else row[name]
        described = json.dumps(self.as_data()).encode()
        return _LENGTH.pack(len(described)) + described + packed.tobytes()


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The rows of a table ordered by time: the time of each in ns, and the columns. Text is str."""

    schema: RowSchema
    ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.ns)

    def dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict of plain Python values, by column."""
        names = [name for name, _ in self.schema.columns]
        values = zip(*(self.columns[name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]


class RowFrames:
    """The row frames of one log, grouped by table."""

    def __init__(self) -> None:
        self._schemas: dict[str, RowSchema] = {}
        self._pieces: dict[str, list[tuple[int, NDArray[Any]]]] = {}

    def add(self, ns: int, data: memoryview) -> None:
        """Add a frame; ValueError if it is damaged, or if the table's columns have changed."""
        schema, rows = unpack(data)
        if self._schemas.setdefault(schema.table, schema) != schema:
            raise ValueError(f"table {schema.table} changes its columns")
        if len(self._schemas) > _MOST_TABLES:
            raise ValueError(f"more than {_MOST_TABLES} tables of rows")
        self._pieces.setdefault(schema.table, []).append((ns, rows))

    def tables(self) -> dict[str, RowColumns]:
        """Return all tables by name."""
        return {name: _joined(schema, self._pieces[name]) for name, schema in self._schemas.items()}


def unpack(data: memoryview) -> tuple[RowSchema, NDArray[Any]]:
    """Decode the schema and the rows of a frame; ValueError if it is damaged."""
    if len(data) < _LENGTH.size:
        raise ValueError("a frame of rows is cut off")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    try:
        schema = RowSchema.from_data(json.loads(bytes(data[_LENGTH.size : end])))
    except RecursionError as error:
        raise ValueError("a frame of rows has no description") from error
    if len(data) < end or (len(data) - end) % schema.record.itemsize:
        raise ValueError(f"a frame of table {schema.table} is cut off")
    return schema, np.frombuffer(data[end:], schema.record)


def columns_of(schema: RowSchema, ns: NDArray[np.int64], rows: NDArray[Any]) -> RowColumns:
    """Convert packed rows to columns."""
    columns = {name: _text(rows[name]) if name in schema.texts else rows[name] for name, _ in schema.columns}
    return RowColumns(schema, ns, columns)


def _joined(schema: RowSchema, pieces: list[tuple[int, NDArray[Any]]]) -> RowColumns:
    """Join pieces ordered by time; rows of the same time stay in the order in which they were written."""
    ns = np.repeat(np.array([ns for ns, _ in pieces], np.int64), [len(rows) for _, rows in pieces])
    order = np.argsort(ns, kind="stable")
    return columns_of(schema, ns[order], np.concatenate([rows for _, rows in pieces])[order])


def _text(values: NDArray[Any]) -> NDArray[Any]:
    return np.array([value.decode(errors="replace") for value in values.tolist()], object)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _is_column(data: object) -> bool:
    if not isinstance(data, list) or len(data) != 2 or not _is_name(data[0]):
        return False
    found = _TYPE.fullmatch(str(data[1]))
    return found is not None and int(found[1] or 0) <= _MOST_TEXT
