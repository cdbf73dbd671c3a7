"""Captures for tests, in memory."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

from lab.wire.pcapng import Direction, Interface, Record, Statistics, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def pcapng(records: Iterable[Record], *interfaces: Interface, dropped: int = 0) -> bytes:
    """A file of one section; one link when none is named."""
    output = io.BytesIO()
    writer = Writer(output)
    for interface in interfaces or (Interface("leaf1:swp1", speed=10**9),):
        writer.add_interface(interface)
    writer.write(records)
    if dropped:
        writer.write_statistics(0, Statistics(received=dropped, dropped=dropped))
    return output.getvalue()


def records(frames: Sequence[bytes], gap: int = 1000) -> list[Record]:
    """The frames, ``gap`` ns apart, on one link."""
    return [Record(10**18 + i * gap, 0, len(frame), Direction.INBOUND, frame) for i, frame in enumerate(frames)]


def pcap(frames: Sequence[bytes], order: str = "<", linktype: int = 1) -> bytes:
    """Classic pcap with ns timestamps."""
    head = struct.pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, linktype)
    return head + b"".join(
        struct.pack(f"{order}IIII", 10**9, number * 1000, len(frame), len(frame)) + frame
        for number, frame in enumerate(frames)
    )


def big_endian(frames: Sequence[bytes]) -> bytes:
    """A pcapng section in the other byte order, with microseconds and without options."""

    def block(kind: int, body: bytes) -> bytes:
        total = 12 + len(body)
        return struct.pack(">II", kind, total) + body + struct.pack(">I", total)

    packets = b"".join(
        block(6, struct.pack(">IIIII", 0, 0, number, len(frame), len(frame)) + frame + bytes(-len(frame) & 3))
        for number, frame in enumerate(frames)
    )
    section = block(0x0A0D0D0A, struct.pack(">IHHq", 0x1A2B3C4D, 1, 0, -1))
    return section + block(1, struct.pack(">HHI", 1, 0, 0)) + packets
