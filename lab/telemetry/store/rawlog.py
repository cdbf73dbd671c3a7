"""The log that a recording is while it runs: frames, one after the other, each with its length and a checksum.

Nothing in it is ever changed, so whoever is killed leaves all but the last half second. A last frame that is torn, or
whose checksum is wrong, ends the log; what is before it is whole.
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
"""Magic, kind, length of the content, and its time in ns of CLOCK_MONOTONIC; the CRC-32 of all that and the content
follows, and then the content."""
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = 0x314C5452
_SAMPLE: Final = struct.Struct("<qqI")
"""When the sample was due, ns that it took, and how many words moved."""
_FLUSH_BYTES: Final = 1 << 20
FLUSH_NS: Final = 500_000_000
"""What is lost at most when the writer is killed."""


class LogFrameKind(IntEnum):
    """What a frame has."""

    HEADER = 1
    """What the words of a sample are (JSON)."""
    SAMPLE = 2
    """The words that moved since the sample before."""
    PORT_EVENTS = 3
    """Records of the ports' event log, as they lie in the kernel's memory."""
    KERNEL_NEWS = 4
    """The number of a node, and what rtnetlink said there."""
    EVENT = 5
    """One event (JSON)."""
    ROWS = 6
    """Rows of a table that grows (``row_tables``), which happened at the frame's time."""


@dataclass(frozen=True, slots=True)
class LogFrame:
    """One frame: its kind, when it was written, and what it has."""

    kind: int
    ns: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Sample:
    """When it was taken and when it was due, how long that took, and the words that moved, by their place."""

    ns: int
    due: int
    took: int
    places: NDArray[np.uint32]
    words: NDArray[np.uint64]


class LogWriter:
    """Appends frames to a file that nobody else writes; OSError when the disk is full.

    Or to a descriptor, for somebody who reads along: then every frame is handed over at once.
    """

    def __init__(self, target: Path | int, header: Mapping[str, Any], ns: int, width: int) -> None:
        self.descriptor = target if isinstance(target, int) else _made(target)
        self._flush_ns = 0 if isinstance(target, int) else FLUSH_NS
        self._waiting = bytearray()
        self._flushed = ns
        self._last = np.zeros(width, np.uint64)
        self.last_ns = ns
        """When the last sample was taken."""
        self.frame(LogFrameKind.HEADER, ns, json.dumps(header).encode())
        self.flush()

    def sample(self, ns: int, due: int, took: int, words: NDArray[np.uint64]) -> None:
        """Keep what moved; the array is the log's from now on."""
        places = np.flatnonzero(words != self._last)
        head = _SAMPLE.pack(due, took, len(places))
        moved = places.astype("<u4").tobytes() + words[places].astype("<u8").tobytes()
        self._last = words
        self.last_ns = ns
        self.frame(LogFrameKind.SAMPLE, ns, head + moved)

    def rows(self, schema: RowSchema, ns: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a table that grows; none is fine."""
        if rows:
            self.frame(LogFrameKind.ROWS, ns, schema.pack(rows))

    def frame(self, kind: LogFrameKind, ns: int, data: bytes) -> None:
        """Append a frame; it is on its way to the disk half a second later."""
        head = _HEAD.pack(_MAGIC, kind, len(data), ns)
        self._waiting += head + _CHECKSUM.pack(zlib.crc32(data, zlib.crc32(head))) + data
        if ns - self._flushed >= self._flush_ns or len(self._waiting) >= _FLUSH_BYTES:
            self.flush()
            self._flushed = ns

    def flush(self) -> None:
        """Hand over what waits to the kernel, which keeps it when we are killed."""
        while self._waiting:
            written = os.write(self.descriptor, self._waiting)
            del self._waiting[:written]

    def close(self) -> None:
        """Write no more; what waits is lost."""
        self._waiting.clear()
        os.close(self.descriptor)


def _made(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def frames(path: Path) -> Iterator[LogFrame]:
    """All whole frames of a log, in order; OSError when it cannot be read."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Frames that are kept keep the mapping: it goes with the last of them.
    data = memoryview(memory)
    at = 0
    while found := _frame_at(data, at):
        yield found[0]
        at = found[1]


class FrameStream:
    """A log that comes in pieces, as from a pipe."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, data: bytes) -> Iterator[LogFrame]:
        """The frames that are whole with this piece; ValueError when what comes is no log."""
        whole = memoryview(self._waiting + data)
        at = 0
        while found := _frame_at(whole, at):
            yield found[0]
            at = found[1]
        self._waiting = bytes(whole[at:])
        if len(self._waiting) >= _HEAD.size and not self._begins_a_frame():
            raise ValueError("no log")

    def _begins_a_frame(self) -> bool:
        """Whether what waits may become one: a whole one whose checksum is wrong would wait for ever."""
        magic, _, length, _ = _HEAD.unpack_from(self._waiting)
        return bool(magic == _MAGIC and len(self._waiting) < _HEAD.size + _CHECKSUM.size + length)


def _frame_at(data: memoryview, at: int) -> tuple[LogFrame, int] | None:
    """The frame that begins there, and where the next one does; None when it is not whole."""
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
    """What a frame of kind SAMPLE says."""
    due, took, count = _SAMPLE.unpack_from(frame.data)
    places = np.frombuffer(frame.data, "<u4", count, _SAMPLE.size)
    words = np.frombuffer(frame.data, "<u8", count, _SAMPLE.size + places.nbytes)
    return Sample(frame.ns, due, took, places, words)
