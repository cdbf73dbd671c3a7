"""Captured packets as columns over the memory that holds them, to sort, select and encode without Python objects.

Creating an object per packet takes longer than the kernel takes to deliver it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.wire.header_fields import EthernetFields, VlanFields
from lab.wire.pcapng import END_OF_OPTIONS, ENHANCED_PACKET, EPB_FLAGS, Direction, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_CHUNK: Final = 1 << 20
"""Bytes that are encoded at once: few system calls, and a buffer that stays in the cache."""
_HEAD_WORDS: Final = 7
_END_WORDS: Final = 4
_WORD: Final = 4
_MAC_ADDRESSES: Final = EthernetFields.ETHERTYPE.at
_TAG: Final = VlanFields.SIZE


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Packets as columns, one entry per packet."""

    time: Column
    """ns since 1970."""
    interface: Column
    start: Column
    """Offset of the packet in the memory of its interface."""
    captured: Column
    """Bytes in that memory."""
    length: Column
    """Bytes on the wire, without a tag that is not in that memory."""
    direction: Column
    tag: Column
    """The VLAN tag that belongs after the MAC addresses (IEEE 802.1Q, 9.6), as one number; 0 for none."""

    def __len__(self) -> int:
        return len(self.time)

    def take(self, which: slice | NDArray[np.generic]) -> FrameBatch:
        """Return the packets of a slice, a mask or an order."""
        return FrameBatch(*(getattr(self, field.name)[which] for field in fields(self)))

    def records(self, memories: Mapping[int, memoryview]) -> Iterator[Record]:
        """Yield the packets one by one. The data of packets without a tag is not copied."""
        columns = (self.time, self.interface, self.start, self.captured, self.length, self.direction, self.tag)
        for time, interface, start, captured, length, direction, tag in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            data: bytes | memoryview = memories[interface][start : start + captured]
            if tag:
                data = b"".join((data[:_MAC_ADDRESSES], tag.to_bytes(_TAG, "big"), data[_MAC_ADDRESSES:]))
            yield Record(time, interface, length + bool(tag) * _TAG, direction, data)

    def blocks(self, memories: Mapping[int, memoryview]) -> Iterator[memoryview]:
        """Yield the packets as enhanced packet blocks of pcapng, in chunks for writing."""
        ends = np.cumsum(_sizes(self)[1])
        done, size = 0, 0
        while done < len(self):
            upto = max(done + 1, int(np.searchsorted(ends, size + _CHUNK, side="right")))
            yield _encoded(self.take(slice(done, upto)), memories)
            done, size = upto, int(ends[upto - 1])


def joined(batches: Sequence[FrameBatch]) -> FrameBatch:
    """Return all packets of some batches, in their order."""
    if len(batches) == 1:
        return batches[0]
    return FrameBatch(
        *(np.concatenate([getattr(each, field.name) for each in batches]) for field in fields(FrameBatch))
    )


def _sizes(batch: FrameBatch) -> tuple[Column, Column]:
    """Return the bytes of each packet, with its tag, and of its block."""
    captured = batch.captured + (batch.tag != 0) * _TAG
    return captured, (captured + _WORD - 1 & -_WORD) + (_HEAD_WORDS + _END_WORDS) * _WORD


def _encoded(batch: FrameBatch, memories: Mapping[int, memoryview]) -> memoryview:
    captured, total = _sizes(batch)
    words = np.empty(int(total.sum()) // _WORD, "<u4")
    after = np.cumsum(total) // _WORD
    at = after - total // _WORD
    words[after - _END_WORDS - 1] = 0  # padding in the last word of the data
    head = (
        ENHANCED_PACKET, total, batch.interface, batch.time >> 32, batch.time & 0xFFFFFFFF, captured,
        batch.length + captured - batch.captured,
    )  # fmt: skip
    for number, value in enumerate(head):
        words[at + number] = value
    for number, value in enumerate((EPB_FLAGS | _WORD << 16, batch.direction, END_OF_OPTIONS, total), -_END_WORDS):
        words[after + number] = value
    octets = words.data.cast("B")
    _copy(batch, memories, octets, (at + _HEAD_WORDS) * _WORD)
    return octets


def _copy(batch: FrameBatch, memories: Mapping[int, memoryview], octets: memoryview, to: Column) -> None:
    places = zip(
        batch.interface.tolist(), batch.start.tolist(), (batch.start + batch.captured).tolist(),
        to.tolist(), (to + batch.captured).tolist(), strict=True,
    )  # fmt: skip
    for interface, start, stop, begin, end in places:
        octets[begin:end] = memories[interface][start:stop]
    for row in np.flatnonzero(batch.tag).tolist():
        begin, size = int(to[row]), int(batch.captured[row])
        tag = int(batch.tag[row]).to_bytes(_TAG, "big")
        kept = bytes(octets[begin : begin + size])
        octets[begin : begin + size + _TAG] = b"".join((kept[:_MAC_ADDRESSES], tag, kept[_MAC_ADDRESSES:]))


def directions(outgoing: NDArray[np.bool_]) -> Column:
    """Return the direction of packets; ``outgoing`` marks those that the interface sent."""
    return np.where(outgoing, int(Direction.OUTBOUND), int(Direction.INBOUND))
