"""The last updates of a running fabric, for any number of readers: each asks for those after its cursor.

Nothing is kept for a reader. A reader that is too slow, or new, gets a snapshot, and goes on from there.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 8_000_000
"""Maximum size of the kept updates."""
MOST_UPDATES: Final = 1000
"""Maximum number of the kept updates."""
_MOST_READ: Final = 200
"""Maximum number of updates in one answer."""


class UpdateRing:
    """The last updates as JSON, numbered from 1; all methods may be called from any thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while a snapshot is taken: a writer that holds it changes what a snapshot reads."""
        self._changed = threading.Condition(self.lock)
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._last = 0
        self._ended = ""
        self._told: dict[str, Any] = {}
        self._tellings = 0

    def publish(self, update: dict[str, Any]) -> None:
        """Add an update."""
        data = _encoded(update)
        with self._changed:
            self._kept.append(data)
            self._size += len(data)
            self._last += 1
            while self._kept and (len(self._kept) > MOST_UPDATES or self._size > MOST_BYTES):
                self._size -= len(self._kept.popleft())
            self._changed.notify_all()

    def tell(self, **values: Any) -> None:
        """Set values that every answer contains, for example the recording in progress."""
        with self._changed:
            self._told.update(values)
            self._tellings += 1
            self._changed.notify_all()

    @property
    def ended(self) -> bool:
        """Whether ``end`` was called."""
        return bool(self._ended)

    def end(self, why: str) -> None:
        """Report the end to all readers, also to those that wait."""
        with self._changed:
            self._ended = self._ended or why
            self._changed.notify_all()

    def after(self, cursor: int, tellings: int, snapshot: Callable[[], dict[str, Any]], patience: float) -> bytes:
        """Return the updates after a cursor as JSON, at the latest after ``patience`` seconds.

        The answer has ``next``, the next cursor, ``updates``, ``ended`` with the reason, the values of ``tell``, and
        ``tellings``, how often it was called. A reader that knows fewer does not wait. For a reader that is
        new, with cursor 0, or too slow, the first update is a snapshot.
        """
        with self._changed:
            if 0 < cursor <= self._last and not self._is_lost(cursor):
                self._changed.wait_for(
                    lambda: self._last > cursor or bool(self._ended) or self._tellings != tellings, patience
                )
            if cursor < 1 or cursor > self._last or self._is_lost(cursor):
                found, following = [_encoded({**snapshot(), "reset": True})] if self._last else [], self._last
            else:
                first = cursor - (self._last - len(self._kept))
                found = [self._kept[place] for place in range(first, min(first + _MOST_READ, len(self._kept)))]
                following = cursor + len(found)
            about = _encoded({"next": following, "tellings": self._tellings, "ended": self._ended, **self._told})
        return about[:-1] + b',"updates":[' + b",".join(found) + b"]}"

    def _is_lost(self, cursor: int) -> bool:
        return cursor < self._last - len(self._kept)


def _encoded(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
