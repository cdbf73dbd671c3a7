"""The host's end of a call: one of the guest's virtio-serial ports, reserved for the duration of the call."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import locks
from lab.vm.calls.frames import PORTS, CallFrame, CallFrameKind, Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.vm.calls.request import GuestRequest
    from lab.vm.host.vm_state import StateFolder

ANSWER: Final = 60.0
"""Seconds after which a guest that does not answer is given up."""
_FIRST_TRY: Final = 5.0
_PAUSE: Final = 0.05
"""Seconds between two attempts, in which the guest notices that the previous connection is closed."""
_PIECE: Final = 1 << 16


class Lost(Exception):
    """The guest, or the connection to it, is gone."""


class GuestChannel:
    """A connection to a guest's port, with one session."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._decoder = Decoder()
        self._tag = int.from_bytes(os.urandom(4), "big")

    def fileno(self) -> int:
        """Return its descriptor, which is readable when frames have arrived."""
        return self._connection.fileno()

    def send(self, kind: CallFrameKind, payload: bytes = b"") -> None:
        """Send a frame of this session. Raises Lost if the connection is gone."""
        try:
            self._connection.sendall(CallFrame(self._tag, kind, payload).encode())
        except OSError as error:
            raise Lost from error

    def receive(self) -> list[CallFrame]:
        """Wait for data and return this session's frames in it. Raises Lost at the end, or for invalid frames."""
        try:
            data = self._connection.recv(_PIECE)
            frames = list(self._decoder.feed(data))
        except (OSError, ValueError) as error:
            raise Lost from error
        if not data:
            raise Lost
        return [frame for frame in frames if frame.tag == self._tag]

    def begin(self, request: GuestRequest, patience: float) -> bool:
        """Request the session. Return whether the guest accepted it within ``patience`` seconds."""
        self.send(CallFrameKind.START, request.to_json())
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            self._connection.settimeout(left)
            with contextlib.suppress(Lost):
                if any(frame.kind is CallFrameKind.ACCEPTED for frame in self.receive()):
                    self._connection.settimeout(None)
                    self.send(CallFrameKind.GO)
                    return True
                continue
            return False
        return False


@contextlib.contextmanager
def opened(state: StateFolder, request: GuestRequest) -> Iterator[GuestChannel]:
    """Yield a channel on a free port of the running guest, on which ``request`` has begun.

    Raises OperationFailed if all ports are in use or the guest does not answer.
    """
    with contextlib.ExitStack() as held:
        port = next((port for port in range(PORTS) if _take(state, port, held)), None)
        if port is None:
            raise OperationFailed(f"{PORTS} commands run in the VM", "wait until one of them has ended")
        yield held.enter_context(opened_at(state, port, request))


@contextlib.contextmanager
def opened_at(state: StateFolder, port: int, request: GuestRequest) -> Iterator[GuestChannel]:
    """Yield a channel as ``opened`` does, on a port that the caller has reserved."""
    deadline, patience = time.monotonic() + ANSWER, _FIRST_TRY
    while time.monotonic() < deadline:
        with _connected(state, port) as connection:
            channel = GuestChannel(connection)
            if channel.begin(request, patience):
                yield channel
                return
        # A killed caller may have sent half a frame. The guest discards it when it sees the connection closed.
        time.sleep(_PAUSE)
        patience *= 2
    raise OperationFailed(f"the VM does not answer within {ANSWER:g} s", "rocelab vm down, then up again")


@contextlib.contextmanager
def alone(state: StateFolder) -> Iterator[int]:
    """Reserve all ports and yield the number of one. Raises OperationFailed if a command runs in the VM."""
    with contextlib.ExitStack() as held:
        if not all(_take(state, port, held) for port in range(PORTS)):
            raise OperationFailed("a command runs in the VM", "wait until it has ended")
        yield 0


def _take(state: StateFolder, port: int, held: contextlib.ExitStack) -> bool:
    """Reserve a port; return whether that succeeded. It is free again when ``held`` or this process ends."""
    return held.enter_context(locks.held_if_free(state.port(port).with_suffix(".lock"), make=True))


@contextlib.contextmanager
def _connected(state: StateFolder, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(state.port(port)))
        except OSError as error:
            raise Lost from error
        yield connection
