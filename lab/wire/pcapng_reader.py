"""Reading pcapng that nobody vouches for: a block at a time, every length checked, memory bounded."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import IO, TYPE_CHECKING, Final, NoReturn

from lab.errors import InvalidInput, Problem
from lab.wire import pcapng
from lab.wire.pcapng import Direction, Interface, Record, Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BLOCK: Final = 16 * 2**20
"""Bytes of one block; Wireshark draws the line at the same place."""
MAX_INTERFACES: Final = 65536
"""Interfaces of one section."""

MAX_NAME: Final = 64
"""Bytes of an interface's name that are kept."""

_OBSOLETE_PACKET: Final = 2
_SIMPLE_PACKET: Final = 3
_CLASSIC_PCAP: Final = {0xA1B2C3D4, 0xD4C3B2A1, 0xA1B23C4D, 0x4D3CB2A1}
_HEAD: Final = 8
_SMALLEST: Final = 12
_DEFAULT_TSRESOL: Final = 6
_DIRECTION: Final = 3
_CONVERT: Final = "write it anew with: tshark -r FILE -w NEW"
_DAMAGED: Final = "what comes before is good; the rest cannot be read"


def _printable(name: bytes) -> str:
    """A name that cannot steer the terminal it is printed on."""
    return "".join(char if char.isprintable() else "?" for char in name[:MAX_NAME].decode(errors="replace"))


class Reader:
    """The packets of a pcapng stream, as an iterator.

    ``interfaces`` holds those of the current section described so far, ``statistics`` what they reported, by
    number. Anything wrong with the file raises InvalidInput, which names the block and its place; packets before
    it have been handed out by then. Packets of links other than Ethernet are refused in the same way.
    """

    def __init__(self, stream: IO[bytes], source: str) -> None:
        self.interfaces: list[Interface] = []
        self.statistics: dict[int, Statistics] = {}
        self._clocks: list[tuple[int, int]] = []  # units per second, offset in seconds
        self._stream = stream
        self._source = source
        self._number = 0
        self._offset = 0
        self._order = "<"

    def __iter__(self) -> Iterator[Record]:
        while head := self._stream.read(_HEAD):
            self._number += 1
            kind, body = self._block(head)
            if kind == pcapng.ENHANCED_PACKET:
                yield self._packet(body)
            else:
                self._take(kind, body)
            self._offset += _SMALLEST + len(body)
        if self._number == 0:
            self._number = 1
            self._refuse("the file is empty", "capture again")

    def _refuse(self, message: str, remedy: str = _DAMAGED) -> NoReturn:
        raise InvalidInput(self._source, [Problem(f"block {self._number} at byte {self._offset}", message, remedy)])

    def _take(self, kind: int, body: bytes) -> None:
        if kind == pcapng.SECTION_HEADER:
            self.interfaces.clear()
            self.statistics.clear()
            self._clocks.clear()
        elif kind == pcapng.INTERFACE_DESCRIPTION:
            self._describe(body)
        elif kind == pcapng.INTERFACE_STATISTICS:
            self._count(body)
        elif kind in {_OBSOLETE_PACKET, _SIMPLE_PACKET}:
            self._refuse("is of a kind without interface or flags", _CONVERT)

    def _block(self, head: bytes) -> tuple[int, bytes]:
        """Read the rest of the block that starts with ``head``: its kind, and what is between the lengths."""
        if self._number == 1:
            self._check_magic(head)
        if len(head) < _HEAD:
            self._refuse("the file ends inside it")
        if head[:4] == b"\n\r\r\n":
            return self._section(head)
        kind, total = self._unpack("II", head, 0)
        return kind, self._rest(total)

    def _check_magic(self, head: bytes) -> None:
        if len(head) >= 4 and int.from_bytes(head[:4]) in _CLASSIC_PCAP:
            self._refuse("is a classic pcap file, not pcapng", "convert it with: editcap -F pcapng FILE NEW")
        if head[:4] != b"\n\r\r\n":
            self._refuse("is not a pcapng section header", "give a file that rocelab capture or dumpcap wrote")

    def _section(self, head: bytes) -> tuple[int, bytes]:
        magic = self._stream.read(4)
        orders = {0x1A2B3C4D: ">", 0x4D3C2B1A: "<"}
        order = orders.get(int.from_bytes(magic)) if len(magic) == 4 else None
        if order is None:
            self._refuse("has no byte order magic", "give a file that rocelab capture or dumpcap wrote")
        self._order = order
        (total,) = self._unpack("I", head, 4)
        body = magic + self._rest(total, already=4)
        (major,) = self._unpack("H", body, 4)
        if major != 1:
            self._refuse(f"is of pcapng version {major}, known is 1", _CONVERT)
        return pcapng.SECTION_HEADER, body

    def _rest(self, total: int, already: int = 0) -> bytes:
        """What is left of a block of ``total`` bytes, of which head and ``already`` more were read."""
        if total < _SMALLEST + already or total > MAX_BLOCK or total % 4:
            self._refuse(f"says that it is {total} bytes long")
        size = total - _SMALLEST - already
        body = self._stream.read(size + 4)
        if len(body) < size + 4:
            self._refuse(f"the file ends inside it, {size + 4 - len(body)} bytes early")
        (again,) = self._unpack("I", body, size)
        if again != total:
            self._refuse(f"says {total} bytes at its start and {again} at its end")
        return body[:size]

    def _unpack(self, layout: str, data: bytes, offset: int) -> tuple[int, ...]:
        parser = Struct(self._order + layout)
        if offset + parser.size > len(data):
            self._refuse("is too short for what it is")
        return parser.unpack_from(data, offset)

    def _options(self, data: bytes, offset: int) -> dict[int, bytes]:
        """The options by code; of one that comes twice the first."""
        found: dict[int, bytes] = {}
        while offset < len(data):
            code, size = self._unpack("HH", data, offset)
            offset += 4
            if code == pcapng.END_OF_OPTIONS:
                break
            if offset + size > len(data):
                self._refuse(f"option {code} says {size} bytes, {len(data) - offset} are left")
            found.setdefault(code, data[offset : offset + size])
            offset += size + (-size & 3)
        return found

    def _describe(self, body: bytes) -> None:
        if len(self.interfaces) == MAX_INTERFACES:
            self._refuse(f"is interface {MAX_INTERFACES + 1}, more than any capture has")
        linktype, _, snaplen = self._unpack("HHI", body, 0)
        options = self._options(body, 8)
        name = options.get(pcapng.IF_NAME, f"interface {len(self.interfaces)}".encode())
        interface = Interface(_printable(name), snaplen=snaplen, linktype=linktype)
        if pcapng.IF_SPEED in options:
            interface = replace(interface, speed=self._unpack("Q", options[pcapng.IF_SPEED], 0)[0])
        (resolution,) = self._unpack("B", options.get(pcapng.IF_TSRESOL, bytes([_DEFAULT_TSRESOL])), 0)
        (offset,) = self._unpack("q", options.get(pcapng.IF_TSOFFSET, bytes(8)), 0)
        units = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        self.interfaces.append(interface)
        self._clocks.append((units, offset))

    def _known(self, number: int) -> int:
        if number >= len(self.interfaces):
            self._refuse(f"refers to interface {number}, described are {len(self.interfaces)}")
        return number

    def _nanoseconds(self, interface: int, high: int, low: int) -> int:
        units, offset = self._clocks[interface]
        return (high << 32 | low) * 10**9 // units + offset * 10**9

    def _packet(self, body: bytes) -> Record:
        number, high, low, captured, length = self._unpack("IIIII", body, 0)
        interface = self.interfaces[self._known(number)]
        if interface.linktype != pcapng.LINKTYPE_ETHERNET:
            self._refuse(
                f"{interface.name} is a link of type {interface.linktype}, not Ethernet",
                "capture on one interface at a time, not on 'any'",
            )
        end = 20 + captured
        if end > len(body):
            self._refuse(f"says {captured} captured bytes, {len(body) - 20} are there")
        options = self._options(body, end + (-captured & 3))
        flags = self._unpack("I", options[pcapng.EPB_FLAGS], 0)[0] if pcapng.EPB_FLAGS in options else 0
        direction = flags & _DIRECTION
        return Record(
            timestamp=self._nanoseconds(number, high, low),
            interface=number,
            length=max(length, captured),
            direction=direction if direction in set(Direction) else Direction.UNKNOWN,
            data=body[20:end],
        )

    def _count(self, body: bytes) -> None:
        number, _, _ = self._unpack("III", body, 0)
        options = self._options(body, 12)
        values = {code: self._value(options.get(code)) for code in (pcapng.ISB_IFRECV, pcapng.ISB_IFDROP)}
        times = {code: self._time(self._known(number), options.get(code)) for code in (2, 3)}
        self.statistics[number] = Statistics(
            received=values[pcapng.ISB_IFRECV],
            dropped=values[pcapng.ISB_IFDROP],
            start=times[pcapng.ISB_STARTTIME],
            end=times[pcapng.ISB_ENDTIME],
        )

    def _value(self, option: bytes | None) -> int:
        return self._unpack("Q", option, 0)[0] if option is not None else 0

    def _time(self, interface: int, option: bytes | None) -> int:
        return self._nanoseconds(interface, *self._unpack("II", option, 0)) if option is not None else 0
