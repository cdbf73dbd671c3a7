"""Write pcapng: named interfaces, nanosecond timestamps, drop counters (draft-ietf-opsawg-pcapng).

A file is one section: its header, one description per interface, packets, and statistics per interface at the end.
Each write passes whole blocks to the operating system. So a writer that is killed leaves a readable file that lacks
at most the last batch.
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

    from lab.wire.nic_note import NicNote

LINKTYPE_ETHERNET: Final = 1
MAX_BLOCK: Final = 16 * 2**20
"""Bytes of one block; Wireshark has the same limit."""
MAX_SNAPLEN: Final = 262144
"""Bytes of one packet that readers accept (draft-ietf-opsawg-pcaplinktype, and Wireshark)."""

APPLICATION: Final = "rocelab"
"""The application name in section headers."""

TO: Final = "to "
"""Prefix of an interface description that names the other end of the link."""

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
INTERFACE_STATISTICS: Final = 5
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6
BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D

END_OF_OPTIONS: Final = 0
COMMENT: Final = 1
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
    """The direction of a packet at the capturing interface (bits 0 and 1 of epb_flags)."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Record(NamedTuple):
    """A captured packet: ``timestamp`` in ns since 1970, ``length`` in bytes on the wire, ``data`` as captured."""

    timestamp: int
    interface: int
    length: int
    direction: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Interface:
    """A capturing interface. ``speed`` is in bit/s, ``snaplen`` 0 means no limit, ``filter`` is its capture filter.

    ``peer`` is the other end of the link, if known; it is written as the interface's description. ``nic`` is the
    congestion control of the NIC at one end; it is written as a comment.
    """

    name: str
    speed: int | None = None
    snaplen: int = 0
    linktype: int = LINKTYPE_ETHERNET
    filter: str = ""
    peer: str = ""
    nic: NicNote | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counters of an interface from ``start`` to ``end`` (ns since 1970); ``received`` includes ``dropped``."""

    received: int
    dropped: int
    start: int = 0
    end: int = 0


class Output(Protocol):
    """An unbuffered binary file or pipe."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Write some or all of ``data`` and return the number of bytes written."""


class Sink(Protocol):
    """A destination for captured packets: ``Writer``, or a substitute."""

    def add_interface(self, interface: Interface) -> int:
        """Describe an interface and return its number, which ``Record.interface`` refers to."""

    def write(self, records: Iterable[Record]) -> None:
        """Write packets, in the order given; their data is valid until this returns."""

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Write the counters of an interface."""


class Writer:
    """Writes one section to ``output``, unbuffered. The caller closes ``output``.

    ``select`` is the filter of interfaces without one of their own. OperationFailed if a write fails; everything
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
        if interface.nic is not None:
            options.append((COMMENT, str(interface.nic).encode()))
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
        """Write packets that are complete enhanced packet blocks already."""
        self._write(blocks)

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Write the counters of an interface; once for each interface, at the end."""
        body = _STATISTICS.pack(interface, *_timestamp(statistics.end))
        options = _options(
            (ISB_STARTTIME, _TIMESTAMP.pack(*_timestamp(statistics.start))),
            (ISB_ENDTIME, _TIMESTAMP.pack(*_timestamp(statistics.end))),
            (ISB_IFRECV, _U64.pack(statistics.received)),
            (ISB_IFDROP, _U64.pack(statistics.dropped)),
        )
        self._write(_block(INTERFACE_STATISTICS, body + options))

    def _write(self, blocks: bytes | memoryview) -> None:
        """Write all blocks or none, so that the file ends with a whole block; OperationFailed on an error."""
        done = 0
        try:
            while done < len(blocks):
                done += self._output.write(blocks[done:]) or 0
        except OSError as error:
            self._take_back(done)
            reason = "No room for a longer file" if error.errno == errno.EFBIG else error.strerror
            name = getattr(self._output, "name", None)
            what = f"the capture {name}" if isinstance(name, str) else "the capture"
            raise OperationFailed(f"cannot write {what}: {reason}", "everything before that is valid") from error
        self.written += done

    def _take_back(self, done: int) -> None:
        if done and isinstance(self._output, io.FileIO):
            with contextlib.suppress(OSError):  # a pipe cannot be truncated
                self._output.truncate(self.written)
                self._output.seek(self.written)


def _timestamp(nanoseconds: int) -> tuple[int, int]:
    return nanoseconds >> 32, nanoseconds & 0xFFFFFFFF


def _block(kind: int, body: bytes) -> bytes:
    total = _BLOCK.size + len(body) + _LENGTH.size
    return _BLOCK.pack(kind, total) + body + _LENGTH.pack(total)


def _packets(records: Iterable[Record]) -> bytes:
    """Return enhanced packet blocks. This is the hot path of captures: one pass, one copy of the data."""
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
