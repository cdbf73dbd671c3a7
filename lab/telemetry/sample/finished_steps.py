"""The steps of the last training job on a fabric: ``rocelab job train`` adds them to a file of its state."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput
from lab.telemetry.store.job_steps import SCHEMA
from lab.telemetry.store.row_records import parse_rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.telemetry.store.row_tables import RowColumns

INTERVAL: Final = 10**9
"""The interval between two looks at the file, in ns."""


class FinishedSteps:
    """Reads the steps that are new since the last look: a job adds to its file, and the next job replaces it.

    Each look reads only what was added, because the file of a long job is large. Times are not in the order of the
    lines: a rank may end a step before another one ends the step before, and two jobs may write to one file.
    """

    def __init__(self, path: Path, now: int) -> None:
        self._path = path
        self._next_look = now
        self._file: tuple[int, bytes] = 0, b""  # inode and first line, because inodes are used again
        self._read = 0  # octets of that file

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Yield a row of ``job_steps.SCHEMA`` for each step of a rank, if a look is due and there are new ones."""
        if now < self._next_look:
            return
        self._next_look = now + INTERVAL
        with contextlib.suppress(OSError, InvalidInput):
            steps = parse_rows(SCHEMA, self._added().decode("utf-8", "replace"), self._path)
            yield from () if steps is None else steps.dicts()

    def _added(self) -> bytes:
        """Return the complete lines that were added to the file since the last look; all of another file."""
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno()).st_ino, file.readline()
            if found != self._file:
                self._file, self._read = found, 0
            file.seek(self._read)
            octets = file.read()
        complete = octets[: octets.rfind(b"\n") + 1]
        self._read += len(complete)
        return complete


def last_steps(path: Path) -> RowColumns | None:
    """Return the steps in the file of a fabric, ordered by time; None without one, or if it is damaged."""
    try:
        return read_rows(SCHEMA, path)
    except InvalidInput:
        return None
