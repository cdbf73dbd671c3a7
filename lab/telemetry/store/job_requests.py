"""The row table ``job_requests``: a row for each request of a transfer, at the time at which it was complete.

``rocelab job transfer`` appends them to ``job_requests.jsonl`` of the fabric's recordings when its last request is
complete (``row_records``).
"""

from __future__ import annotations

from typing import Final

from lab.telemetry.store.row_tables import RowSchema

SCHEMA: Final = RowSchema(
    "job_requests",
    3,
    (
        ("began", "i8"), ("node", "S64"), ("interface", "S16"), ("request", "u4"), ("target", "S64"),
        ("target_interface", "S16"), ("verb", "S8"), ("size", "u8"), ("begin", "i8"),
    ),
)  # fmt: skip
"""``began`` and ``begin`` are when the transfer's first request and this one began, in ns of CLOCK_MONOTONIC.

``node`` made the request, its number ``request`` from 1. A ``read`` moves ``size`` bytes from ``target``, and a
``write`` to it. Two transfers may run at the same time, but do not share ``began``.
"""
