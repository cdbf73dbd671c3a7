"""A batch of packets as columns over one buffer, the list of damages, and the file window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Octets = NDArray[np.uint8]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CHUNK: Final = 3 * 2**20
"""Bytes read at a time, at most."""
_FIRST: Final = 2**20
"""Bytes read at first. For small packets this fills whole batches, and unread bytes take no memory."""
MOST: Final = 4096
"""Packets of a batch: few enough for the columns to stay in the cache, and to bound memory with small packets."""
SLACK: Final = 256
"""Readable bytes after any packet, so that gathering headers needs no bounds checks."""
_DAMAGES_KEPT: Final = 20


def rows(data: Octets, at: Ints, size: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return ``size`` bytes from each offset, in one copy."""
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))[at]


def places(row: Ints, count: int) -> Ints | slice:
    """Return an index for ascending rows among ``count``: a slice if it is all of them, which costs a third."""
    return slice(None) if len(row) == count else row


class PacketBatch(NamedTuple):
    """The packets in one piece of the file. The next batch reuses the buffer, so keep copies only.

    ``start`` indexes ``data``; ``captured`` and ``length`` are bytes kept and on the wire. ``time`` is in ns since
    1970. ``direction`` is a ``lab.wire.pcapng.Direction``, and ``number`` is the packet's number in the file, from 1.
    """

    data: Octets
    start: Ints
    captured: Ints
    length: Ints
    time: Ints
    interface: Ints
    direction: Ints
    number: Ints

    def select(self, rows: Flags) -> PacketBatch:
        """Return the packets that ``rows`` marks."""
        return PacketBatch(self.data, *(column[rows] for column in self[1:]))


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged part of a file: its place (``packet 7``, ``block 3 at byte 96``), and what is wrong."""

    place: str
    what: str


class Damages:
    """The first damages in full, and the number of all."""

    def __init__(self) -> None:
        self.kept: list[Damage] = []
        self.count = 0

    def add(self, place: str, what: str) -> None:
        """Add a damage."""
        self.count += 1
        if len(self.kept) < _DAMAGES_KEPT:
            self.kept.append(Damage(place, what))

    def add_packets(self, numbers: Sequence[int] | Ints, what: str) -> None:
        """Add the same damage for each of these packets."""
        for number in numbers[: max(0, _DAMAGES_KEPT - len(self.kept))]:
            self.kept.append(Damage(f"packet {number}", what))
        self.count += len(numbers)


class FileWindow:
    """A piece of a file that slides forward; ``data[:end]`` is valid and starts at byte ``offset`` of the file.

    ``widen`` extends it up to ``chunk`` bytes; ``grow`` makes room for a single longer block.
    """

    def __init__(self, stream: IO[bytes], chunk: int = CHUNK) -> None:
        self.data: Octets = np.zeros(chunk + SLACK, np.uint8)
        self.end = 0
        self.offset = 0
        self.exhausted = False
        self._stream = stream
        self._chunk, self._reach = chunk, min(chunk, _FIRST)

    def release(self) -> None:
        """Free the memory, when the file has been read."""
        self.data, self.end = np.zeros(0, np.uint8), 0

    def widen(self) -> None:
        """Read as much as there is room for from now on."""
        self._reach = max(self._reach, self._chunk)

    def slide(self, used: int) -> None:
        """Drop ``used`` bytes at the front and read more at the end. ``exhausted`` is set at the end of the file."""
        rest = self.end - used
        self.data[:rest] = self.data[used : self.end].copy()
        self.offset += used
        self.end = rest
        self._fill()

    def grow(self, size: int) -> None:
        """Make room for a block of ``size`` bytes at the front, and read it, as far as the file goes."""
        if size + SLACK > len(self.data):
            larger = np.zeros(size + SLACK, np.uint8)
            larger[: self.end] = self.data[: self.end]
            self.data = larger
        self._reach = max(self._reach, size)
        self._fill()

    def _fill(self) -> None:
        room = self.data.data[: self._reach]
        while self.end < len(room):
            got = self._stream.readinto(room[self.end :])  # type: ignore[attr-defined]  # IO[bytes] has no readinto
            if not got:
                self.exhausted = True
                break
            self.end += got
        self.data[self.end : self.end + SLACK] = 0
