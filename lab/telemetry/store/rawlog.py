"""The log of a running recording: a sequence of frames, each with its length and a checksum.

Frames are only appended, so a killed recorder loses at most the last half second. An incomplete frame, or one with a
wrong checksum, ends the log; the frames before it are valid.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lab.telemetry.store.row_tables import RowSchema

_HEAD: Final = struct.Struct("<IBxxxIq")
"""Magic, kind, length of the content, and its time in ns of CLOCK_MONOTONIC. The CRC-32 of these and the content
follows, then the content.
"""
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = 0x314C5452
_SAMPLE: Final = struct.Struct("<qqI")
"""When the sample was due, its duration in ns, and the number of words that changed."""
_FLUSH_BYTES: Final = 1 << 20
FLUSH_NS: Final = 500_000_000
"""The most that is lost when the writer is killed, in ns."""


class LogFrameKind(IntEnum):
    """The content of a frame."""

    HEADER = 1
    """The layout of a sample's words (JSON)."""
    SAMPLE = 2
    """The words that changed since the sample before."""
    PORT_EVENTS = 3
    """Records of the ports' event log, in the layout of the kernel's memory."""
    KERNEL_NEWS = 4
    """The index of a node, and rtnetlink messages from it."""
    EVENT = 5
    """One event (JSON)."""
    ROWS = 6
    """Rows of a row table (``row_tables``), at the frame's time."""


@dataclass(frozen=True, slots=True)
class LogFrame:
    """One frame: its kind, the time it was written, and its content."""

    kind: int
    ns: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: when it was taken and due, its duration, and the words that changed, by index. Times are in ns."""

    ns: int
    due: int
    took: int
    places: NDArray[np.uint32]
    words: NDArray[np.uint64]


class LogWriter:
    """Appends frames to a file that no other process writes; OSError if the disk is full.

    The target may also be a descriptor of a live reader: then each frame is written at once.
    """

    def __init__(self, target: Path | int, header: Mapping[str, Any], ns: int, width: int) -> None:
        self.descriptor = target if isinstance(target, int) else _made(target)
        self._flush_ns = 0 if isinstance(target, int) else FLUSH_NS
        self._waiting = bytearray()
        self._flushed = ns
        self._last = np.zeros(width, np.uint64)
        self.last_ns = ns
        """The time of the last sample, in ns."""
        self.frame(LogFrameKind.HEADER, ns, json.dumps(header).encode())
        self.flush()

    def sample(self, ns: int, due: int, took: int, words: NDArray[np.uint64]) -> None:
        """Append the words that changed; the caller must not change the array afterwards."""
        places = np.flatnonzero(words != self._last)
        head = _SAMPLE.pack(due, took, len(places))
        moved = places.astype("<u4").tobytes() + words[places].astype("<u8").tobytes()
        self._last = words
        self.last_ns = ns
        self.frame(LogFrameKind.SAMPLE, ns, head + moved)

    def rows(self, schema: RowSchema, ns: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a row table; an empty sequence is ignored."""
        if rows:
            self.frame(LogFrameKind.ROWS, ns, schema.pack(rows))

    def frame(self, kind: LogFrameKind, ns: int, data: bytes) -> None:
        """Append a frame; frames for a file are buffered for half a second, or up to 1 MiB."""
        head = _HEAD.pack(_MAGIC, kind, len(data), ns)
        self._waiting += head + _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(head))) + data
        if ns - self._flushed >= self._flush_ns or len(self._waiting) >= _FLUSH_BYTES:
            self.flush()
            self._flushed = ns

    def flush(self) -> None:
        """Write buffered frames to the kernel, which keeps them if this process is killed."""
        while self._waiting:
            written = os.write(self.descriptor, self._waiting)
            del self._waiting[:written]

    def close(self) -> None:
        """Close the log; buffered frames are lost."""
        self._waiting.clear()
        os.close(self.descriptor)


def _made(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def frames(path: Path) -> Iterator[LogFrame]:
    """Yield the valid frames of a log in order; OSError if it cannot be read."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Frames in use keep the mapping alive; it is freed with the last of them.
    data = memoryview(memory)
    at = 0
    while found := _frame_at(data, at):
        yield found[0]
        at = found[1]


class FrameStream:
    """A log that arrives in pieces, for example from a pipe."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, data: bytes) -> Iterator[LogFrame]:
        """Yield the frames that this piece completes; ValueError if the data is no log."""
        whole = memoryview(self._waiting + data)
        at = 0
        while found := _frame_at(whole, at):
            yield found[0]
            at = found[1]
        self._waiting = bytes(whole[at:])
        if len(self._waiting) >= _HEAD.size and not self._begins_a_frame():
            raise ValueError("no log")

    def _begins_a_frame(self) -> bool:
        """Whether the buffered data may become a frame. A complete one with a wrong checksum would wait forever."""
        magic, _, length, _ = _HEAD.unpack_from(self._waiting)
        return bool(magic == _MAGIC and len(self._waiting) < _HEAD.size + _CHECKSUM.size + length)


def _frame_at(data: memoryview, at: int) -> tuple[LogFrame, int] | None:
    """Return the frame at an offset and the offset of the next; None if it is incomplete or damaged."""
    start = at + _HEAD.size + _CHECKSUM.size
    if start > len(data):
        return None
    magic, kind, length, ns = _HEAD.unpack_from(data, at)
    (checksum,) = _CHECKSUM.unpack_from(data, at + _HEAD.size)
    content = data[start : start + length]
    if (
        magic != _MAGIC
        or len(content) < length
        or zlib.crc32(content, zlib.crc32(data[at : at + _HEAD.size])) != checksum
    ):
        return None
    return LogFrame(kind, ns, content), start + length


def sample_of(frame: LogFrame) -> Sample:
    """Decode a frame of kind SAMPLE."""
    due, took, count = _SAMPLE.unpack_from(frame.data)
    places = np.frombuffer(frame.data, "<u4", count, _SAMPLE.size)
    words = np.frombuffer(frame.data, "<u8", count, _SAMPLE.size + places.nbytes)
    return Sample(ns=frame.ns, due=due, took=took, places=places, words=words)
