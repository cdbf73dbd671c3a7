"""The host's end of a call: one of the guest's virtio-serial ports, taken for as long as the call lasts."""

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
"""Seconds until a guest that does not answer is given up."""
_FIRST_TRY: Final = 5.0
_PAUSE: Final = 0.05
"""Seconds in which the guest may notice that a caller is gone."""
_PIECE: Final = 1 << 16


class Lost(Exception):
    """The guest, or the way to it, is gone."""


class GuestChannel:
    """A connection to a guest's port on which a session has begun."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._decoder = Decoder()
        self._tag = int.from_bytes(os.urandom(4), "big")

    def fileno(self) -> int:
        """Its descriptor, readable when frames have come."""
        return self._connection.fileno()

    def send(self, kind: CallFrameKind, payload: bytes = b"") -> None:
        """Send a frame of this session; Lost when nobody takes it."""
        try:
            self._connection.sendall(CallFrame(self._tag, kind, payload).encode())
        except OSError as error:
            raise Lost from error

    def receive(self) -> list[CallFrame]:
        """Frames of this session that have come; waits for some. Lost at the end, or when they are no frames."""
        try:
            data = self._connection.recv(_PIECE)
            frames = list(self._decoder.feed(data))
        except (OSError, ValueError) as error:
            raise Lost from error
        if not data:
            raise Lost
        return [frame for frame in frames if frame.tag == self._tag]

    def begin(self, request: GuestRequest, patience: float) -> bool:
        """Ask for the session; whether the guest accepted it within ``patience`` seconds."""
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
    """A channel on a free port of the running guest, on which ``request`` has begun.

    Raises OperationFailed when all ports are taken or the guest does not answer.
    """
    with contextlib.ExitStack() as held:
        port = next((port for port in range(PORTS) if _take(state, port, held)), None)
        if port is None:
            raise OperationFailed(f"{PORTS} commands run in the VM", "wait until one of them has ended")
        yield held.enter_context(opened_at(state, port, request))


@contextlib.contextmanager
def opened_at(state: StateFolder, port: int, request: GuestRequest) -> Iterator[GuestChannel]:
    """The same on a port that the caller has taken."""
    deadline, patience = time.monotonic() + ANSWER, _FIRST_TRY
    while time.monotonic() < deadline:
        with _connected(state, port) as connection:
            channel = GuestChannel(connection)
            if channel.begin(request, patience):
                yield channel
                return
        # What a killed caller left half-sent makes no frame: the guest starts anew when it sees nobody there.
        time.sleep(_PAUSE)
        patience *= 2
    raise OperationFailed(f"the VM does not answer within {ANSWER:g} s", "rocelab vm down, then up again")


@contextlib.contextmanager
def alone(state: StateFolder) -> Iterator[int]:
    """All ports are the caller's, and this is the number of one; OperationFailed when a command runs in the VM."""
    with contextlib.ExitStack() as held:
        if not all(_take(state, port, held) for port in range(PORTS)):
            raise OperationFailed("a command runs in the VM", "wait until it has ended")
        yield 0


def _take(state: StateFolder, port: int, held: contextlib.ExitStack) -> bool:
    """Whether no other caller has the port; it is free again when ``held`` or this process ends."""
    return held.enter_context(locks.held_if_free(state.port(port).with_suffix(".lock"), make=True))


@contextlib.contextmanager
def _connected(state: StateFolder, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(state.port(port)))
        except OSError as error:
            raise Lost from error
        yield connection
