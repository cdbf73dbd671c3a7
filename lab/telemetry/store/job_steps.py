"""The row table ``job_steps``: a row for each step of each rank of a training job, at the time at which it ended.

``rocelab job train`` appends its steps to ``job_steps.jsonl`` of the fabric's recordings (``row_records``).
"""

from __future__ import annotations

from typing import Final

from lab.telemetry.store.row_tables import RowSchema

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
