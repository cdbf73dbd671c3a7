"""Finish a recording: convert its log to tables and events, then mark it complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.telemetry.record.cast import write_cast
from lab.telemetry.store.log_store import LogStore, described
from lab.telemetry.store.parquet import write_tables
from lab.telemetry.store.recording_folder import Folder, wall_offset, write_json
from lab.telemetry.store.row_parquet import write_row_tables
from lab.telemetry.store.row_records import readable_tables

if TYPE_CHECKING:
    from collections.abc import Mapping


def finish(folder: Folder, about: Mapping[str, Any]) -> None:
    """Convert the log to tables and events, then delete it; OSError if the disk is full, and the log is kept.

    An interrupted call may be repeated.
    """
    log = LogStore(folder.log)
    folder.tables.mkdir(exist_ok=True)
    write_tables(log, folder.tables, wall_offset(about))
    appended, lacks = readable_tables(folder)
    row_tables = {**log.row_tables, **appended}
    write_row_tables(row_tables, folder.rows, wall_offset(about))
    with folder.events.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in log.events())
    write_cast(folder, about)
    ns = log.samples["ns"]
    seconds = (int(ns[-1]) - int(about["start_ns"])) / 10**9 if len(ns) else 0.0
    rows = [table.schema.as_data() for table in row_tables.values()]
    why = about.get("why") or lacks
    write_json(
        folder.about,
        {**about, "why": why, "complete": True, "seconds": seconds, "tables": described(log), "rows": rows},
    )
    folder.log.unlink()
