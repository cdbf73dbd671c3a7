"""Rows that commands append to a recording: each table has a file of JSON lines, a row each.

The end of a recording converts them to row tables. The recorder itself is another process, and the only one that
writes to its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import InvalidInput
from lab.telemetry.store import job_requests, job_steps
from lab.telemetry.store.recording_folder import damage_as_invalid, parse_lines, read_lines
from lab.telemetry.store.row_tables import columns_of, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lab.telemetry.store.recording_folder import Folder
    from lab.telemetry.store.row_tables import RowColumns, RowSchema

_ROWS: Final = (("steps of training jobs", job_steps.SCHEMA), ("requests of transfers", job_requests.SCHEMA))


def appended_tables(folder: Folder) -> dict[str, RowColumns]:
    """Return the tables whose rows commands have appended, if there are any. InvalidInput if one is damaged."""
    found = {schema.table: read_rows(schema, folder.appended_rows(schema.table)) for _, schema in _ROWS}
    return {table: rows for table, rows in found.items() if rows is not None}


def readable_tables(folder: Folder) -> tuple[dict[str, RowColumns], str]:
    """Return the tables that are not damaged, and what the recording lacks; "" if it lacks nothing."""
    found: dict[str, RowColumns] = {}
    lacks = []
    for what, schema in _ROWS:
        path = folder.appended_rows(schema.table)
        try:
            rows = read_rows(schema, path)
        except InvalidInput as error:
            lacks.append(f"it has no {what}: {path.name}: {error.problems[0].message}")
        else:
            found |= {} if rows is None else {schema.table: rows}
    return found, "; ".join(lacks)


def read_rows(schema: RowSchema, path: Path) -> RowColumns | None:
    """Return the rows in a file, ordered by time; None if there are none. InvalidInput if it is damaged."""
    return _columns(schema, read_lines(path), path)


def parse_rows(schema: RowSchema, text: str, path: Path) -> RowColumns | None:
    """Return the rows in some lines of a file, as ``read_rows`` does for all of them."""
    return _columns(schema, parse_lines(text, path), path)


def _columns(schema: RowSchema, every: Iterable[dict[str, Any]], path: Path) -> RowColumns | None:
    with damage_as_invalid(path):
        lines = sorted(every, key=lambda line: int(line["ns"]))
        if not lines:
            return None
        _require_types(schema, lines)
        _, rows = unpack(memoryview(schema.pack(lines)))
        return columns_of(schema, np.array([line["ns"] for line in lines], np.int64), rows)


def _require_types(schema: RowSchema, lines: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError on values that NumPy would convert, or cut to the bits of their column."""
    for name, of in schema.columns:
        values = [line[name] for line in lines]
        if of.startswith("S"):
            fits = all(isinstance(value, str) for value in values)
        else:
            bounds = np.iinfo(of)
            fits = all(type(value) is int and bounds.min <= value <= bounds.max for value in values)
        if not fits:
            raise ValueError(f"a value of {name} is not of type {of}")
