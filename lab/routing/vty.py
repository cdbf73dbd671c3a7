"""A client of an FRR daemon's vty socket: no vtysh process, and a timeout for stopped daemons.

The protocol is vtysh's (lib/vty.c): a command ends with a zero byte; an answer ends with three and a status byte.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING, Final, Self

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from pathlib import Path

_END: Final = b"\0\0\0"
_STATUS: Final = 1
_BUFFER: Final = 1 << 16
_MOST: Final = 1 << 24
"""The most bytes of an answer; the connection counts as lost after more."""


class Vty:
    """One connection to one daemon; answers come in the order of the commands."""

    def __init__(self, path: Path) -> None:
        """Connect; raise OperationFailed if no daemon listens at ``path``."""
        self._path = path
        self._heard = bytearray()
        self._unasked = 0
        self._status = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            self.socket.close()
            raise OperationFailed(f"no daemon listens at {path}: {error.strerror}", "rocelab status") from error
        self.socket.setblocking(False)
        self.ask("enable")  # as vtysh does: view mode shows less
        self._unasked = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, command: str) -> None:
        """Send a command; raise OperationFailed if the connection is closed or the socket has no room for all of it.

        A command that was sent in part would be joined with the next one, so the connection is closed then.
        """
        line = command.encode() + b"\0"
        try:
            sent = self.socket.send(line)
        except OSError as error:
            raise self._lost() from error
        if sent < len(line):
            self.close()
            raise OperationFailed(f"the daemon at {self._path} does not read its commands", "is it stopped?")

    def answer(self) -> str | None:
        """Return the next answer, or None while it is incomplete; raise OperationFailed if the connection is lost."""
        if (said := self._next()) is None:
            with contextlib.suppress(BlockingIOError):
                self._heard += self._receive()
            said = self._next()
        while said is not None and self._unasked:
            self._unasked -= 1
            said = self._next()
        return said

    def _next(self) -> str | None:
        end = self._heard.find(_END)
        if end < 0 or end + len(_END) + _STATUS > len(self._heard):
            return None
        said = self._heard[:end].decode(errors="replace")
        self._status = self._heard[end + len(_END)]
        del self._heard[: end + len(_END) + _STATUS]
        return said

    def answer_to(self, command: str, timeout: float = 10.0) -> str:
        """Return the answer to a command; raise OperationFailed on a timeout (seconds) or a rejection."""
        self.ask(command)
        deadline = time.monotonic() + timeout
        ready = select.poll()
        ready.register(self.socket, select.POLLIN)
        while (said := self.answer()) is None:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise OperationFailed(f"{self._path} does not answer '{command}'", "is its daemon stopped?")
        if self._status:
            raise OperationFailed(f"the daemon at {self._path} does not take '{command}'", said.strip())
        return said

    def _receive(self) -> bytes:
        try:
            data = self.socket.recv(_BUFFER)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._lost() from error
        if not data or len(self._heard) > _MOST:
            raise self._lost()
        return data

    def _lost(self) -> OperationFailed:
        return OperationFailed(f"the daemon at {self._path} has hung up", "rocelab status")
