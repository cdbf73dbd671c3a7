"""The guest's end of one virtio-serial port: frames both ways, and whether anybody is at the other end."""

from __future__ import annotations

import os
import select
from collections import deque
from typing import TYPE_CHECKING, Final

from lab.vm.calls.frames import Decoder

if TYPE_CHECKING:
    from lab.vm.calls.frames import CallFrame

_PIECE: Final = 1 << 15


class Disconnected(Exception):
    """Nobody is at the host's end any more."""


class VirtioPort:
    """One open port. A port without a host is always readable, so it is waited for by edges."""

    def __init__(self, descriptor: int) -> None:
        """Take an open port, which must not block."""
        self._descriptor = descriptor
        self._decoder = Decoder()
        self._pending: deque[bytes] = deque()
        self.edges = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET

    def fileno(self) -> int:
        """Its descriptor, to be waited for with ``edges``."""
        return self._descriptor

    @property
    def congested(self) -> bool:
        """Whether the host has yet to take what was sent."""
        return bool(self._pending)

    def receive(self) -> list[CallFrame]:
        """Whole frames that have come; Disconnected when nobody is there, or what comes are no frames."""
        frames: list[CallFrame] = []
        while True:
            try:
                data = os.read(self._descriptor, _PIECE)
            except BlockingIOError:
                return frames
            if not data and frames:
                return frames
            if not data:
                raise Disconnected
            try:
                frames += self._decoder.feed(data)
            except ValueError as error:
                raise Disconnected from error

    def await_host(self) -> None:
        """Until the kernel says that somebody is there: it may hand over what they say before that.

        Somebody who is gone again is waited for until the next one comes.
        """
        with select.epoll() as events:
            events.register(self._descriptor, self.edges)
            hung_up = select.poll()
            hung_up.register(self._descriptor, 0)
            while hung_up.poll(0):
                events.poll()

    def send(self, frame: CallFrame) -> None:
        """Send a frame, or keep what the host does not take at once for ``flush``."""
        self._pending.append(frame.encode())
        self.flush()

    def flush(self) -> None:
        """Send what is kept, as far as the host takes it."""
        while self._pending:
            data = self._pending.popleft()
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                written = 0
            if written < len(data):
                self._pending.appendleft(data[written:])
                if not written:
                    return

    def reset(self) -> None:
        """Forget the session that was."""
        self._decoder.reset()
        self._pending.clear()
