"""The protocol of calls: frames in both directions on one virtio-serial port, one session at a time.

A frame is a tag, a kind and a length, then that number of bytes. The tag identifies the session: frames left over
from a killed call have another tag, and are ignored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTS: Final = 16
"""Virtio-serial ports of a guest: the number of simultaneous calls."""
PORT_NAME: Final = "rocelab.call."
"""Prefix of the ports' names."""
_HEADER: Final = struct.Struct("!IBI")
_LONGEST: Final = 1 << 22
CHUNK: Final = 1 << 15
"""Maximum bytes of a stream in one frame."""
WINDOW: Final = 1 << 17
"""Bytes of standard input that may be in flight before the command has read some of them."""


class CallFrameKind(IntEnum):
    """The kinds of frames: below 16 from the caller, from 16 on from the guest."""

    START = 1
    """Payload: JSON of ``GuestRequest``."""
    GO = 2
    """The caller has received ACCEPTED: the command may start. A caller that timed out before has started nothing."""
    INPUT = 3
    INPUT_END = 4
    SIGNAL = 5
    """Payload: the number of a signal, in decimal."""
    RESIZE = 6
    """Payload: rows and columns of the caller's terminal, in decimal."""
    ACCEPTED = 16
    """The guest has begun the session, and waits for GO."""
    OUTPUT = 17
    ERRORS = 18
    TAKEN = 19
    """Payload: the number of input bytes that the command has read, in decimal."""
    EXIT = 20
    """Payload: the command's exit code, in decimal; 128 plus the number of a signal that ended it."""


@dataclass(frozen=True)
class CallFrame:
    """One frame."""

    tag: int
    kind: CallFrameKind
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the frame's bytes on the port."""
        return _HEADER.pack(self.tag, self.kind, len(self.payload)) + self.payload


class Decoder:
    """Splits received bytes into whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[CallFrame]:
        """Yield the frames that ``data`` completes. Raises ValueError for bytes that are no frames."""
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
        """Discard a partial frame: its sender is gone."""
        self._buffer.clear()
