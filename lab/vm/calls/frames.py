"""What a call says to the guest and the guest to the call: frames on one virtio-serial port, a session at a time.

A frame is a tag, a kind and a length, then so many octets. The tag is the session's: what is left over from a call
that was killed has another one, and is passed over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTS: Final = 16
"""Virtio-serial ports of a guest: calls at one time."""
PORT_NAME: Final = "rocelab.call."
"""What their names begin with."""
_HEADER: Final = struct.Struct("!IBI")
_LONGEST: Final = 1 << 22
CHUNK: Final = 1 << 15
"""Octets of a stream in one frame, at most."""
WINDOW: Final = 1 << 17
"""Octets of standard input that may be under way before the command has taken some of them."""


class CallFrameKind(IntEnum):
    """What a frame is."""

    START = 1
    """JSON of ``Request``."""
    GO = 2
    """The caller has seen ACCEPTED: the command may start. A caller that gave up waiting has started nothing."""
    INPUT = 3
    INPUT_END = 4
    SIGNAL = 5
    """The number of a signal, in decimal."""
    RESIZE = 6
    """Rows and columns of the caller's terminal, in decimal."""
    ACCEPTED = 16
    """The guest has begun the session, and waits for GO."""
    OUTPUT = 17
    ERRORS = 18
    TAKEN = 19
    """How many octets of input the command has taken, in decimal."""
    EXIT = 20
    """The command's exit code, in decimal: 128 and the signal's number when one ended it."""


@dataclass(frozen=True)
class CallFrame:
    """One frame."""

    tag: int
    kind: CallFrameKind
    payload: bytes = b""

    def encode(self) -> bytes:
        """As it goes over the port."""
        return _HEADER.pack(self.tag, self.kind, len(self.payload)) + self.payload


class Decoder:
    """Octets in, whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[CallFrame]:
        """Frames that are complete with ``data``; ValueError when the octets are none."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            tag, kind, length = _HEADER.unpack_from(self._buffer)
            if length > _LONGEST:
                raise ValueError(f"a frame of {length} octets")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield CallFrame(tag, CallFrameKind(kind), payload)

    def reset(self) -> None:
        """Forget half a frame: whoever sent it is gone."""
        self._buffer.clear()
