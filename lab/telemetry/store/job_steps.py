"""The row table ``job_steps``: a row for each step of each rank of a training job, at the time at which it ended.

``rocelab job train`` appends its steps to ``job_steps.jsonl`` of the fabric's recordings, and the end of a recording
converts them to the row table. The recorder itself is another process, and the only one that writes to its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.telemetry.store.recording_folder import damage_as_invalid, parse_lines, read_lines
from lab.telemetry.store.row_tables import RowSchema, columns_of, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lab.telemetry.store.recording_folder import Folder
    from lab.telemetry.store.row_tables import RowColumns

SCHEMA: Final = RowSchema(
    "job_steps",
    3,
    (
        ("job", "S40"), ("began", "i8"), ("rank", "u4"), ("node", "S64"), ("interface", "S16"), ("step", "u4"),
        ("begin", "i8"), ("compute", "u8"), ("communication", "u8"), ("waiting", "u8"), ("late", "i8"),
    ),
)  # fmt: skip
"""``began`` and ``begin`` are when the job and the rank's step began, in ns of CLOCK_MONOTONIC. Two jobs may have one
name, also at the same time, but not ``began``. The others are durations in ns.
``communication`` includes ``waiting``.
"""


def step_tables(folder: Folder) -> Mapping[str, RowColumns]:
    """Return the table of a recording's training jobs, if it has any, ordered by time. InvalidInput if damaged."""
    found = read_steps(folder.job_steps)
    return {} if found is None else {SCHEMA.table: found}


def read_steps(path: Path) -> RowColumns | None:
    """Return the steps in a file, ordered by time; None if there are none. InvalidInput if it is damaged."""
    return _columns(read_lines(path), path)


def parse_steps(text: str, path: Path) -> RowColumns | None:
    """Return the steps in some lines of a file, as ``read_steps`` does for all of them."""
    return _columns(parse_lines(text, path), path)


def _columns(every: Iterable[dict[str, Any]], path: Path) -> RowColumns | None:
    with damage_as_invalid(path):
        lines = sorted(every, key=lambda line: int(line["ns"]))
        if not lines:
            return None
        _require_types(lines)
        _, rows = unpack(memoryview(SCHEMA.pack(lines)))
        return columns_of(SCHEMA, np.array([line["ns"] for line in lines], np.int64), rows)


def _require_types(lines: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError on values that NumPy would convert, or cut to the bits of their column."""
    for name, of in SCHEMA.columns:
        values = [line[name] for line in lines]
        if of.startswith("S"):
            fits = all(isinstance(value, str) for value in values)
        else:
            bounds = np.iinfo(of)
            fits = all(type(value) is int and bounds.min <= value <= bounds.max for value in values)
        if not fits:
            raise ValueError(f"a value of {name} is not of type {of}")
