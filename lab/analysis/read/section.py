"""One section of a pcapng file: its byte order, its interfaces' clocks, and its packets' options."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from struct import Struct, error
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.wire import pcapng
from lab.wire.nic_note import NicNote
from lab.wire.pcapng import Interface, Statistics

if TYPE_CHECKING:
    from lab.analysis.read.block_walk import RecordLayout
    from lab.analysis.read.packet_batch import Flags, Ints, Octets

MAX_INTERFACES: Final = 65536
"""Interfaces of one capture."""
MAX_NAME: Final = 64
"""Bytes of an interface's name that are kept."""
_OBSOLETE_PACKET: Final = 2
_DEFAULT_TSRESOL: Final = 6
_OPTIONS_READ: Final = 8  # of a packet; epb_flags comes first with all known writers
_SECTION_FIXED: Final = 16
_WORD: Final = 0xFFFFFFFF
_FILTER_KEPT: Final = 4096
_COMMENT_READ: Final = 512
_INT64: Final = 2**63


class PcapngSection:
    """A pcapng section. ``numbers`` maps its interfaces to interface numbers in the whole file.

    An interface with the same description as in an earlier section is the same interface: the file was concatenated.
    Two with equal descriptions in one section are different: captures of several machines were merged.
    """

    def __init__(self, layout: RecordLayout, known: dict[tuple[Interface, int], int]) -> None:
        self.layout = layout
        self.word = np.dtype(">u4" if layout.big_endian else "<u4")
        self.clocks: list[tuple[int, int]] = []  # units per second, offset in seconds
        self.linktypes: list[int] = []
        self.snaplens: list[int] = []
        self.application = ""
        self.numbers: list[int] = []
        self._known = known  # numbers by interface and occurrence, of equal ones the first, second ...
        self._alike = Counter[Interface]()
        self._order = ">" if layout.big_endian else "<"

    def take(self, kind: int, body: bytes, interfaces: list[Interface], statistics: dict[int, Statistics]) -> str:
        """Read a block that is not a packet. Return a description of what is wrong, empty if nothing is."""
        try:
            if kind == pcapng.INTERFACE_DESCRIPTION:
                return self._describe(body, interfaces)
            if kind == pcapng.SECTION_HEADER:
                self.application = _printable(self._options(body, _SECTION_FIXED).get(pcapng.SHB_USERAPPL, b""))
            if kind == pcapng.INTERFACE_STATISTICS:
                return self._count(body, statistics)
        except error:
            return "is too short for its type"
        if kind == _OBSOLETE_PACKET:
            return "is an obsolete Packet Block, which is not supported"
        return ""

    def _describe(self, body: bytes, interfaces: list[Interface]) -> str:
        if len(self.clocks) >= MAX_INTERFACES or len(interfaces) >= MAX_INTERFACES:
            return f"is interface {len(self.clocks) + 1}; more are not supported"
        linktype, _, snaplen = self._unpack("HHI", body, 0)
        options = self._options(body, 8)
        name = options.get(pcapng.IF_NAME, f"interface {len(self.clocks)}".encode())
        select = _printable(options.get(pcapng.IF_FILTER, b"\0")[1:], _FILTER_KEPT)
        interface = Interface(
            _printable(name), snaplen=snaplen, linktype=linktype, filter=select, peer=_peer(options),
            nic=NicNote.parse(_printable(options.get(pcapng.COMMENT, b""), _COMMENT_READ)),
        )  # fmt: skip
        if pcapng.IF_SPEED in options:
            interface = replace(interface, speed=self._unpack("Q", options[pcapng.IF_SPEED], 0)[0] or None)
        (resolution,) = self._unpack("B", options.get(pcapng.IF_TSRESOL, bytes([_DEFAULT_TSRESOL])), 0)
        (offset,) = self._unpack("q", options.get(pcapng.IF_TSOFFSET, bytes(8)), 0)
        self.linktypes.append(linktype)
        self.snaplens.append(snaplen)
        self.clocks.append((2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution, offset))
        self._alike[interface] += 1
        number = self._known.setdefault((interface, self._alike[interface]), len(interfaces))
        self.numbers.append(number)
        if number == len(interfaces):
            interfaces.append(interface)
        return ""

    def _count(self, body: bytes, statistics: dict[int, Statistics]) -> str:
        number, _, _ = self._unpack("III", body, 0)
        if number >= len(self.clocks):
            return f"refers to interface {number}, but only {len(self.clocks)} are described"
        options = self._options(body, 12)
        received, dropped = (
            self._unpack("Q", options.get(code, bytes(8)), 0)[0] for code in (pcapng.ISB_IFRECV, pcapng.ISB_IFDROP)
        )
        begun, ended = (
            self._time(number, options[code]) if code in options else 0
            for code in (pcapng.ISB_STARTTIME, pcapng.ISB_ENDTIME)
        )
        before = statistics.get(self.numbers[number], Statistics(received=0, dropped=0, start=begun, end=ended))
        statistics[self.numbers[number]] = Statistics(
            received=before.received + received,
            dropped=before.dropped + dropped,
            start=min(before.start, begun) or before.start or begun,
            end=max(before.end, ended),
        )
        return ""

    def _time(self, number: int, option: bytes) -> int:
        """Return a timestamp of an interface in ns since 1970."""
        high, low = self._unpack("II", option, 0)
        units, offset = self.clocks[number]
        return (high << 32 | low) * 10**9 // units + offset * 10**9

    def _unpack(self, layout: str, data: bytes, offset: int) -> tuple[int, ...]:
        return Struct(self._order + layout).unpack_from(data, offset)

    def _options(self, data: bytes, offset: int) -> dict[int, bytes]:
        """Return the options by code. The first of equal codes counts; options that exceed the block are ignored."""
        found: dict[int, bytes] = {}
        while offset + 4 <= len(data):
            code, size = self._unpack("HH", data, offset)
            offset += 4
            if code == pcapng.END_OF_OPTIONS or offset + size > len(data):
                break
            found.setdefault(code, data[offset : offset + size])
            offset += size + (-size & 3)
        return found

    def nanoseconds(self, interface: Ints, high: Ints, low: Ints, good: Flags) -> Ints:
        """Return timestamps in ns since 1970. They wrap after the year 2262."""
        result = np.zeros(len(interface), np.int64)
        ticks = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        if len(self.clocks) == 1 and good.all():
            units, offset = self.clocks[0]
            return _scaled(ticks, units) + np.int64(_wrapped(offset * 10**9))
        for number in np.unique(interface[good]).tolist():
            rows = good & (interface == number)
            units, offset = self.clocks[number]
            result[rows] = _scaled(ticks[rows], units) + np.int64(_wrapped(offset * 10**9))
        return result

    def directions(self, data: Octets, start: Ints, total: Ints, captured: Ints, good: Flags) -> Ints:
        """Return the directions of packets from epb_flags, 0 without."""
        result = np.zeros(len(start), np.int64)
        at = start + 28 + (captured + 3 & ~3)
        end = start + total - 4
        rows = np.flatnonzero(good & (at + 8 <= end))
        at, end = at[rows], end[rows]
        for _ in range(_OPTIONS_READ):
            if not len(rows):
                break
            head = np.ndarray((len(data) - 7,), "V8", data, strides=(1,))[at]
            fields = head.view(self._order + "u2").reshape(-1, 4)
            code, size = fields[:, 0], fields[:, 1].astype(np.int64)
            found = (code == pcapng.EPB_FLAGS) & (size == 4)
            result[rows[found]] = head.view(self.word).reshape(-1, 2)[found, 1] & 3
            at = at + 4 + (size + 3 & ~3)
            more = ~found & (code != pcapng.END_OF_OPTIONS) & (at + 8 <= end)
            rows, at, end = rows[more], at[more], end[more]
        return np.where(result == 3, 0, result)


def _peer(options: dict[int, bytes]) -> str:
    """Return the other end of the link, from an interface description in rocelab's format; else empty."""
    told = _printable(options.get(pcapng.IF_DESCRIPTION, b""))
    end = told.removeprefix(pcapng.TO)
    return end if end != told and ":" in end and " " not in end else ""


def _scaled(ticks: np.ndarray[tuple[int], np.dtype[np.uint64]], units: int) -> Ints:
    if units == 10**9:
        return ticks.view(np.int64)
    if units < 10**9:
        whole, rest = np.divmod(ticks, np.uint64(units))
        return (whole * np.uint64(10**9) + rest * np.uint64(10**9) // np.uint64(units)).view(np.int64)
    return np.array([_wrapped(tick * 10**9 // units) for tick in ticks.tolist()], np.int64)


def _wrapped(value: int) -> int:
    return (value + _INT64) % (2 * _INT64) - _INT64


def _printable(name: bytes, most: int = MAX_NAME) -> str:
    """Return the name with unprintable characters replaced, so that it cannot control the terminal."""
    text = name[:most].decode(errors="replace")
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
