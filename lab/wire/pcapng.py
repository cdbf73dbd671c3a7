"""Writing pcapng: several interfaces by name, nanosecond timestamps, drops counted (draft-ietf-opsawg-pcapng).

A file is one section: its header, one description per interface, packets, and statistics per interface at the
end. Every write hands whole blocks to the operating system, so that a writer killed at any moment leaves a file
whose readers lose at most the last batch.
"""

from __future__ import annotations

import contextlib
import errno
import io
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

LINKTYPE_ETHERNET: Final = 1
MAX_BLOCK: Final = 16 * 2**20
"""Bytes of one block; Wireshark draws the line at the same place."""
MAX_SNAPLEN: Final = 262144
"""Bytes of one packet that readers accept (draft-ietf-opsawg-pcaplinktype, and Wireshark)."""

APPLICATION: Final = "rocelab"
"""What names itself as the writer of a section."""

TO: Final = "to "
"""What a description begins with that names the other end of a link."""

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
INTERFACE_STATISTICS: Final = 5
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6
BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D

END_OF_OPTIONS: Final = 0
SHB_USERAPPL: Final = 4
IF_NAME: Final = 2
IF_DESCRIPTION: Final = 3
IF_SPEED: Final = 8
IF_TSRESOL: Final = 9
IF_FILTER: Final = 11
IF_TSOFFSET: Final = 14
EPB_FLAGS: Final = 2
ISB_STARTTIME: Final = 2
ISB_ENDTIME: Final = 3
ISB_IFRECV: Final = 4
ISB_IFDROP: Final = 5

_NANOSECONDS: Final = 9
_BATCH: Final = 256  # packets per call to the operating system: few calls, and a buffer that stays in the cache
_LENGTH: Final = Struct("<I")
_BLOCK: Final = Struct("<II")
_SECTION: Final = Struct("<IHHq")
_INTERFACE: Final = Struct("<HHI")
_PACKET: Final = Struct("<IIIIIII")
_PACKET_END: Final = Struct("<HHIII")  # epb_flags, end of options, total length
_STATISTICS: Final = Struct("<III")
_OPTION: Final = Struct("<HH")
_TIMESTAMP: Final = Struct("<II")
_U64: Final = Struct("<Q")


class Direction(IntEnum):
    """Which way a packet went at the interface that saw it (bits 0 and 1 of epb_flags)."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Record(NamedTuple):
    """A captured packet: ``timestamp`` in ns since 1970, ``length`` in bytes on the wire, ``data`` what was kept."""

    timestamp: int
    interface: int
    length: int
    direction: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Interface:
    """Where packets were seen; ``speed`` in bit/s. ``snaplen`` 0 means no limit, ``filter`` what let them through.

    ``peer`` is the other end of the link, where that is known; readers see it as the interface's description.
    """

    name: str
    speed: int | None = None
    snaplen: int = 0
    linktype: int = LINKTYPE_ETHERNET
    filter: str = ""
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an interface counted from ``start`` to ``end`` (ns since 1970); ``received`` includes ``dropped``."""

    received: int
    dropped: int
    start: int = 0
    end: int = 0


class Output(Protocol):
    """What the writer writes to: an unbuffered binary file or pipe."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Write some or all of ``data`` and return how much."""


class Sink(Protocol):
    """What takes a capture: ``Writer``, and what stands for it."""

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface and return its number, which ``Record.interface`` refers to."""

    def write(self, records: Iterable[Record]) -> None:
        """Take packets, in the order given; their data is valid until this returns."""

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Take what an interface counted."""


class Writer:
    """Writes one section to ``output``. Nothing is buffered; nothing is closed.

    ``select`` is the filter of all interfaces that name none. What cannot be written raises OperationFailed; what was
    written before stays valid.
    """

    def __init__(self, output: Output, application: str = APPLICATION, select: str = "") -> None:
        self._output = output
        self._filter = select
        self._interfaces = 0
        self.written = 0
        body = _SECTION.pack(BYTE_ORDER_MAGIC, 1, 0, -1)
        self._write(_block(SECTION_HEADER, body + _options((SHB_USERAPPL, application.encode()))))

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface and return its number, which ``Record.interface`` refers to."""
        options = [(IF_NAME, interface.name.encode()), (IF_TSRESOL, bytes([_NANOSECONDS]))]
        if interface.peer:
            options.append((IF_DESCRIPTION, f"{TO}{interface.peer}".encode()))
        if interface.speed is not None:
            options.append((IF_SPEED, _U64.pack(interface.speed)))
        if interface.filter or self._filter:
            options.append((IF_FILTER, b"\0" + (interface.filter or self._filter).encode()))
        body = _INTERFACE.pack(interface.linktype, 0, interface.snaplen)
        self._write(_block(INTERFACE_DESCRIPTION, body + _options(*options)))
        self._interfaces += 1
        return self._interfaces - 1

    def write(self, records: Iterable[Record]) -> None:
        """Write packets, in the order given."""
        source = iter(records)
        while blocks := _packets(islice(source, _BATCH)):
            self._write(blocks)

    def write_blocks(self, blocks: bytes | memoryview) -> None:
        """Write packets that are whole enhanced packet blocks already, of interfaces that were added."""
        self._write(blocks)

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Write what an interface counted; once for each, at the end."""
        body = _STATISTICS.pack(interface, *_timestamp(statistics.end))
        options = _options(
            (ISB_STARTTIME, _TIMESTAMP.pack(*_timestamp(statistics.start))),
            (ISB_ENDTIME, _TIMESTAMP.pack(*_timestamp(statistics.end))),
            (ISB_IFRECV, _U64.pack(statistics.received)),
            (ISB_IFDROP, _U64.pack(statistics.dropped)),
        )
        self._write(_block(INTERFACE_STATISTICS, body + options))

    def _write(self, blocks: bytes | memoryview) -> None:
        """Write all of it, or on failure none, so that the file ends in a whole block; OperationFailed says why."""
        done = 0
        try:
            while done < len(blocks):
                done += self._output.write(blocks[done:]) or 0
        except OSError as error:
            self._take_back(done)
            reason = "No room for a longer file" if error.errno == errno.EFBIG else error.strerror
            raise OperationFailed(f"cannot write the capture: {reason}", "everything before that is valid") from error
        self.written += done

    def _take_back(self, done: int) -> None:
        if done and isinstance(self._output, io.FileIO):
            with contextlib.suppress(OSError):  # a pipe: its reader has what it has
                self._output.truncate(self.written)
                self._output.seek(self.written)


def _timestamp(nanoseconds: int) -> tuple[int, int]:
    return nanoseconds >> 32, nanoseconds & 0xFFFFFFFF


def _block(kind: int, body: bytes) -> bytes:
    total = _BLOCK.size + len(body) + _LENGTH.size
    return _BLOCK.pack(kind, total) + body + _LENGTH.pack(total)


def _packets(records: Iterable[Record]) -> bytes:
    """Enhanced packet blocks. Captures spend their time here: one pass, one copy of the data."""
    parts: list[bytes | memoryview] = []
    for timestamp, interface, length, direction, data in records:
        captured = len(data)
        padding = -captured & 3
        total = _PACKET.size + captured + padding + _PACKET_END.size
        high, low = timestamp >> 32, timestamp & 0xFFFFFFFF
        parts += (
            _PACKET.pack(ENHANCED_PACKET, total, interface, high, low, captured, length),
            data,
            bytes(padding) + _PACKET_END.pack(EPB_FLAGS, 4, direction, END_OF_OPTIONS, total),
        )
    return b"".join(parts)


def _options(*options: tuple[int, bytes]) -> bytes:
    packed = [_OPTION.pack(code, len(value)) + value + bytes(-len(value) & 3) for code, value in options]
    return b"".join(packed) + _OPTION.pack(END_OF_OPTIONS, 0)
