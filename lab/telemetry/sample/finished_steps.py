"""The steps of the last training job on a fabric, from the file that ``rocelab job train`` leaves in its state."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput
from lab.telemetry.store.job_steps import read_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.telemetry.store.row_tables import RowColumns

INTERVAL: Final = 10**9
"""The interval between two looks at the file, in ns."""


class FinishedSteps:
    """Reads the steps that are new since the last look: a job adds to its file, and the next job replaces it."""

    def __init__(self, path: Path, now: int) -> None:
        self._path = path
        self._next_look = now
        self._known: tuple[int, int, int] | None = None  # inode, size and time of the last change
        self._read = 0  # steps of that file

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Yield a row of ``job_steps.SCHEMA`` for each step of a rank, if a look is due and there are new ones."""
        if now < self._next_look:
            return
        self._next_look = now + INTERVAL
        with contextlib.suppress(OSError):
            stat = self._path.stat()
            known = stat.st_ino, stat.st_size, stat.st_mtime_ns
            if known == self._known:
                return
            if self._known is None or known[0] != self._known[0]:
                self._read = 0
            self._known = known
            steps = last_steps(self._path)
            found = [] if steps is None else steps.dicts()
            yield from found[self._read :]
            self._read = len(found)


def last_steps(path: Path) -> RowColumns | None:
    """Return the steps in the file of a fabric, ordered by time; None without one, or if it is damaged."""
    try:
        return read_steps(path)
    except InvalidInput:
        return None
