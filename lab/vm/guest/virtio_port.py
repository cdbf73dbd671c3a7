"""The guest's end of one virtio-serial port: frames in both directions, and whether the host is connected."""

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
    """The host's end is closed."""


class VirtioPort:
    """An open port. A port without a host is always readable, so waiting uses edge triggers."""

    def __init__(self, descriptor: int) -> None:
        """Use an open descriptor of a port, which must be non-blocking."""
        self._descriptor = descriptor
        self._decoder = Decoder()
        self._pending: deque[bytes] = deque()
        self.edges = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET

    def fileno(self) -> int:
        """Return its descriptor, to be polled with ``edges``."""
        return self._descriptor

    @property
    def congested(self) -> bool:
        """Whether the host has not yet accepted everything that was sent."""
        return bool(self._pending)

    def receive(self) -> list[CallFrame]:
        """Return the whole frames received. Raises Disconnected without a host, or for bytes that are no frames."""
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
        """Wait until the kernel reports a connected host: it may deliver the host's data before that.

        If the host has disconnected again, wait for the next connection.
        """
        with select.epoll() as events:
            events.register(self._descriptor, self.edges)
            hung_up = select.poll()
            hung_up.register(self._descriptor, 0)
            while hung_up.poll(0):
                events.poll()

    def send(self, frame: CallFrame) -> None:
        """Send a frame. Data that the host does not accept at once is kept for ``flush``."""
        self._pending.append(frame.encode())
        self.flush()

    def flush(self) -> None:
        """Send kept data, as much as the host accepts."""
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
        """Discard all data of the previous session."""
        self._decoder.reset()
        self._pending.clear()
