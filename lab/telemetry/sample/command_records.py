"""Commands on a fabric and steps of its jobs, for a live view: read from the folder to which they are appended."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from lab.telemetry.store.recording_folder import Folder, RecordKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NS: Final = 10**9
INTERVAL: Final = _NS // 4
"""The interval between two readings, in ns."""
_READ: Final = ".read"
_KINDS: Final = (RecordKind.COMMAND, RecordKind.JOB_STEP)
_OTHERS: Final = (RecordKind.TRUTH, RecordKind.TRANSFER, RecordKind.JOB)
"""Records that a live view does not show: they are deleted. A challenge hides its fault."""


class CommandRecords:
    """Reads and removes the records of a folder, so that it does not grow."""

    def __init__(self, path: Path, now: int) -> None:
        """``path`` is an empty folder; from now on it gets records. OSError if it cannot be written."""
        self._folder = Folder(path)
        self._folder.about.write_text("{}", encoding="utf-8")
        self._next_look = now

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Yield an event for each new record, if a reading is due."""
        if now < self._next_look:
            return
        self._next_look = now + INTERVAL
        for kind in _KINDS:
            for record in self._taken(kind):
                yield from _events(kind, record)
        for kind in _OTHERS:
            self._folder.records(kind).unlink(missing_ok=True)

    def _taken(self, kind: RecordKind) -> Iterator[dict[str, Any]]:
        """Yield the records of a file that was set aside at the last reading: its writers have ended since."""
        path = self._folder.records(kind)
        aside = path.with_name(path.name + _READ)
        with contextlib.suppress(OSError):
            lines = aside.read_bytes().splitlines()
            aside.unlink()
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):
                    yield json.loads(line)
        with contextlib.suppress(OSError):
            path.rename(aside)


def _events(kind: RecordKind, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if kind is RecordKind.JOB_STEP:
        yield {"source": "job", "kind": "step", **record}
    else:
        yield {
            "source": "command", "kind": "command", "node": record["node"], "began": record["ns"],
            "argv": record["argv"], "code": record["exit_code"], "output": record["stdout"] + record["stderr"],
        }  # fmt: skip
