"""The end of a recording: its log becomes tables and events, and only then is it called complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.telemetry.read.recording import described
from lab.telemetry.record.cast import write_cast
from lab.telemetry.store.log_store import LogStore
from lab.telemetry.store.parquet import write_tables
from lab.telemetry.store.recording_folder import Folder, wall_offset, write_json
from lab.telemetry.store.row_parquet import write_row_tables

if TYPE_CHECKING:
    from collections.abc import Mapping


def finish(folder: Folder, about: Mapping[str, Any]) -> None:
    """Make tables and events of the log, and take that away; OSError when the disk is full: it is still there then.

    Fine to repeat after whatever cut it short.
    """
    log = LogStore(folder.log)
    folder.tables.mkdir(exist_ok=True)
    write_tables(log, folder.tables, wall_offset(about))
    write_row_tables(log.row_tables, folder.rows, wall_offset(about))
    with folder.events.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in log.events())
    write_cast(folder, about)
    ns = log.samples["ns"]
    seconds = (int(ns[-1]) - int(about["start_ns"])) / 10**9 if len(ns) else 0.0
    rows = [table.schema.as_data() for table in log.row_tables.values()]
    write_json(folder.about, {**about, "complete": True, "seconds": seconds, "tables": described(log), "rows": rows})
    folder.log.unlink()
