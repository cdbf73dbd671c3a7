"""Send frames unchanged out of one interface of a namespace, through AF_PACKET (packet(7))."""

from __future__ import annotations

import errno
import select
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.packets.pace import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from lab.kernel.packets.pace import Pace
    from lab.kernel.process.netns import Namespace

_NAP: Final = 0.1
"""Seconds between checks for an interrupt while a sender waits for its time, or for room in the socket's buffer."""
_NO_PROTOCOL: Final = 0
"""A socket bound with this protocol receives nothing."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """Packets and bytes that the kernel accepted, packets that its queue refused, and the duration.

    ``seconds`` last until the next packet would have been due, so that ``packets / seconds`` is the rate.
    """

    packets: int
    bytes: int
    refused: int
    seconds: float

    @property
    def packets_per_second(self) -> float:
        """The achieved rate in packets per second; 0 if no time passed."""
        return self.packets / self.seconds if self.seconds else 0.0

    @property
    def bits_per_second(self) -> float:
        """The achieved rate in bits per second, counted over frames without FCS."""
        return self.bytes * 8 / self.seconds if self.seconds else 0.0


class Injector:
    """Sends frames from ``interface``. A context manager.

    Raises EnvironmentLacks without the permission, and OperationFailed without the interface. Addresses, checksums
    and lengths are not checked. The frames queue behind those in the interface's qdisc.
    """

    def __init__(self, namespace: Namespace, interface: str) -> None:
        self._where = f"{interface} in namespace {namespace.name}"
        self._interrupted = False
        try:
            self._socket = namespace.inside(_open_socket)
        except PermissionError as error:
            raise EnvironmentLacks("sending frames needs CAP_NET_RAW", "run as root") from error
        try:
            self._socket.bind((interface, _NO_PROTOCOL))
        except OSError as error:
            self._socket.close()
            raise self._failure(error) from error
        self._socket.setblocking(False)
        self._room = select.poll()
        self._room.register(self._socket, select.POLLOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, frames: Iterable[bytes], pace: Pace | None = None) -> SendResult:
        """Send all ``frames``, at ``pace`` or as fast as the kernel accepts them, or until ``interrupt``.

        Raises UsageError if a frame is longer than the interface's MTU, and OperationFailed if the interface is down.
        """
        packets = size = refused = 0
        began = now = time.monotonic()
        schedule = None if pace is None else Schedule(pace, began)
        for frame in frames:
            if schedule is not None:
                now = self._wait(schedule.due)
                schedule.take(len(frame), now)
            if self._interrupted or (accepted := self._accepts(frame)) is None:
                break
            if accepted:
                packets += 1
                size += len(frame)
            else:
                refused += 1
        ended = time.monotonic()
        if schedule is not None and not self._interrupted:
            ended = max(ended, schedule.due)
        return SendResult(packets=packets, bytes=size, refused=refused, seconds=ended - began)

    def interrupt(self) -> None:
        """Make ``send`` end after the current packet; for signal handlers and other threads."""
        self._interrupted = True

    def _wait(self, due: float) -> float:
        """Wait until ``due``, or shortly after an interrupt, and return the time."""
        while (now := time.monotonic()) < due and not self._interrupted:
            time.sleep(min(due - now, _NAP))
        return now

    def _accepts(self, frame: bytes) -> bool | None:
        """Send one frame. Return False if the interface's queue is full, and None if interrupted before."""
        try:
            while not self._has_sent(frame):
                if self._interrupted:
                    return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return False
            if error.errno == errno.EMSGSIZE:
                raise UsageError(
                    f"a frame of {len(frame)} bytes is longer than {self._where} carries", "give it less data"
                ) from error
            raise self._failure(error) from error
        return True

    def _has_sent(self, frame: bytes) -> bool:
        """Send a frame if the socket's buffer has room; otherwise wait for room, at most until the next check.

        A blocking socket would wait for as long as the interface is paused, and ``interrupt`` would have no effect.
        """
        try:
            self._socket.send(frame)
        except BlockingIOError:
            self._room.poll(_NAP * 1000)
            return False
        return True

    def _failure(self, error: OSError) -> OperationFailed:
        return OperationFailed(f"cannot send from {self._where}: {error.strerror}", "rocelab status")


def _open_socket() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _NO_PROTOCOL)
