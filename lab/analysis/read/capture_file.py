"""Read a capture file (pcapng or classic pcap) in batches of columns. Lengths are checked, memory is bounded.

Damage is recorded in ``damages``. Reading continues as long as the start of the next block is certain.
"""

from __future__ import annotations

from collections import defaultdict
from typing import IO, TYPE_CHECKING, Final, NoReturn

import numpy as np

from lab.analysis.read.block_walk import RecordLayout, Walked, walk
from lab.analysis.read.linktypes import to_ethernet
from lab.analysis.read.mirrors import unwrap
from lab.analysis.read.packet_batch import CHUNK, MOST, Damages, FileWindow, Flags, Ints, PacketBatch
from lab.analysis.read.section import PcapngSection
from lab.errors import InvalidInput, Problem
from lab.wire import pcapng
from lab.wire.pcapng import Interface, Statistics

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_CLASSIC_MAGIC: Final = {  # the first four octets: big endian, units per second
    b"\xa1\xb2\xc3\xd4": (True, 10**6),
    b"\xd4\xc3\xb2\xa1": (False, 10**6),
    b"\xa1\xb2\x3c\x4d": (True, 10**9),
    b"\x4d\x3c\xb2\xa1": (False, 10**9),
}
_CLASSIC_HEADER: Final = 24
_CLASSIC_RECORD: Final = 16
_SECTION_MAGIC: Final = pcapng.SECTION_HEADER.to_bytes(4)
_EARLIER: Final = "the data before it is intact; the rest cannot be read"


class CaptureFile:
    """The packets of ``stream`` as batches. It can be iterated once.

    * ``interfaces`` grows as interfaces are described, and keeps those of all sections.
    * ``statistics`` are the interface statistics, by interface number.
    * ``mirrored`` counts the packets that GRE or ERSPAN carried.
    * ``applications`` are the programs that wrote the sections.
    * ``foreign`` counts the packets of unsupported link types, by type. They are in no batch.

    A file that is no capture raises InvalidInput. All other problems are recorded in ``damages``.
    """

    def __init__(self, stream: IO[bytes], source: str, chunk: int = CHUNK) -> None:
        self.interfaces: list[Interface] = []
        self.statistics: dict[int, Statistics] = {}
        self.damages = Damages()
        self.applications: set[str] = set()
        self.packets = self.mirrored = 0
        self.foreign: dict[int, int] = defaultdict(int)
        self._source = source
        self._blocks = 0
        self._window = FileWindow(stream, chunk)
        self._time = 0
        self._known: dict[tuple[Interface, int], int] = {}

    @property
    def names(self) -> list[str]:
        """The unique names of the interfaces: of two hosts' eth0, the second is ``eth0 (2)``."""
        seen: dict[str, int] = {}
        found = []
        for interface in self.interfaces:
            seen[interface.name] = seen.get(interface.name, 0) + 1
            again = seen[interface.name]
            found.append(interface.name if again == 1 else f"{interface.name} ({again})")
        return found

    def __iter__(self) -> Iterator[PacketBatch]:
        window = self._window
        window.slide(0)
        head = window.data[:4].tobytes()
        if window.end == 0:
            self._refuse("is empty", "capture again")
        if head in _CLASSIC_MAGIC:
            yield from self._classic(*_CLASSIC_MAGIC[head])
        elif head == _SECTION_MAGIC:
            yield from self._sections()
        else:
            self._refuse("is neither pcapng nor pcap", "give a file written by rocelab capture, dumpcap or tcpdump")
        window.release()

    def _refuse(self, message: str, remedy: str) -> NoReturn:
        raise InvalidInput(self._source, [Problem("", message, remedy)])

    def _block_damage(self, place: int, what: str) -> None:
        self.damages.add(f"block {self._blocks + 1} at byte {self._window.offset + place}", f"{what}; {_EARLIER}")

    # Walking either format

    def _walk(self, layout: RecordLayout) -> Walked | None:
        """Return the whole records at the front of the window, after reading more if needed; None at end of file."""
        window = self._window
        while True:
            walked = walk(window.data, window.end, layout)
            if len(walked.start):
                if len(walked.start) < MOST:
                    window.widen()
                return walked
            if walked.broken:
                self._block_damage(0, f"has a length field of {walked.next_size} bytes")
                return None
            if window.exhausted:
                if window.end:
                    self._block_damage(0, "the file ends inside it")
                return None
            window.grow(walked.next_size or 0)

    # Classic pcap

    def _classic(self, big_endian: bool, units: int) -> Iterator[PacketBatch]:
        window, order = self._window, ">" if big_endian else "<"
        if window.end < _CLASSIC_HEADER:
            self._refuse("ends inside the file header", "capture again")
        snaplen, linktype = np.frombuffer(window.data[16:24].tobytes(), f"{order}u4").tolist()
        linktype &= 0xFFFF
        self.interfaces.append(Interface("pcap", snaplen=snaplen, linktype=linktype))
        layout = RecordLayout(8, _CLASSIC_RECORD, 16, 16, pcapng.MAX_SNAPLEN + _CLASSIC_RECORD, 1, big_endian)
        window.slide(_CLASSIC_HEADER)
        while walked := self._walk(layout):
            for part in _parts(len(walked.start)):
                yield self._plain(self._records(walked.start[part], order, units))
            self._blocks += len(walked.start)
            window.slide(walked.next)

    def _records(self, start: Ints, order: str, units: int) -> PacketBatch:
        count = len(start)
        heads = _rows(self._window, start, _CLASSIC_RECORD).view(f"{order}u4").reshape(count, 4).astype(np.int64)
        self.packets += count
        return PacketBatch(
            data=self._window.data,
            start=start + _CLASSIC_RECORD,
            captured=heads[:, 2],
            length=np.maximum(heads[:, 3], heads[:, 2]),
            time=heads[:, 0] * 10**9 + heads[:, 1] * (10**9 // units),
            interface=np.zeros(count, np.int64),
            direction=np.zeros(count, np.int64),
            number=np.arange(self.packets - count + 1, self.packets + 1),
        )

    # pcapng

    def _sections(self) -> Iterator[PacketBatch]:
        """Read the file section by section: each section header gives the byte order of the blocks after it."""
        while section := self._open_section():
            if not (yield from self._section(section)):
                return

    def _section(self, section: PcapngSection) -> Generator[PacketBatch, None, bool]:
        """Yield the batches of the section at the front of the window; return whether another section follows."""
        window, inside = self._window, False
        while not (inside and window.data[:4].tobytes() == _SECTION_MAGIC) and (walked := self._walk(section.layout)):
            heads = _kinds(window, walked.start, section) == pcapng.SECTION_HEADER
            heads[:1] &= inside
            inside = True
            following = _first(heads)
            count = len(walked.start) if following is None else following
            whole = self._check_ends(walked, section, count)
            yield from self._blocks_of(section, walked, whole)
            self.applications.add(section.application)
            self._blocks += whole
            if whole < count:
                return False
            window.slide(walked.next if following is None else int(walked.start[following]))
        return bool(window.end) and window.data[:4].tobytes() == _SECTION_MAGIC and inside

    def _open_section(self) -> PcapngSection | None:
        window = self._window
        orders = {b"\x1a\x2b\x3c\x4d": True, b"\x4d\x3c\x2b\x1a": False}
        big_endian = orders.get(window.data[8:12].tobytes())
        if window.end < 28 or big_endian is None:
            self._block_damage(0, "has no byte order magic" if window.end >= 12 else "the file ends inside it")
            return None
        major = int.from_bytes(window.data[12:14].tobytes(), "big" if big_endian else "little")
        if major != 1:
            self._block_damage(0, f"is of pcapng version {major}, known is 1")
            return None
        layout = RecordLayout(4, 0, 12, 12, pcapng.MAX_BLOCK, 4, big_endian)
        return PcapngSection(layout, self._known)

    def _check_ends(self, walked: Walked, section: PcapngSection, count: int) -> int:
        """Return how many of the first ``count`` blocks repeat their length at the end; report the next as damage."""
        totals = walked.total[:count]
        again = _rows(self._window, walked.start[:count] + totals - 4, 4).view(section.word).ravel()
        wrong = _first(again != totals)
        if wrong is None:
            return count
        self._blocks += wrong
        self._block_damage(
            int(walked.start[wrong]), f"has length {totals[wrong]} at its start and {again[wrong]} at its end"
        )
        self._blocks -= wrong
        return wrong

    def _blocks_of(self, section: PcapngSection, walked: Walked, count: int) -> Iterator[PacketBatch]:
        start, total = walked.start[:count], walked.total[:count]
        kinds = _kinds(self._window, start, section)
        packet = (kinds == pcapng.ENHANCED_PACKET) | (kinds == pcapng.SIMPLE_PACKET)
        described_at = self._take_others(section, start, total, kinds, packet)
        start, total, simple = start[packet], total[packet], kinds[packet] == pcapng.SIMPLE_PACKET
        for part in _parts(len(start)):
            yield self._plain(self._packets(section, start[part], total[part], described_at, simple[part]))

    def _take_others(self, section: PcapngSection, start: Ints, total: Ints, kinds: Ints, packet: Flags) -> list[int]:
        """Read the blocks that are not packets. Return the offset at which each interface was described."""
        described_at = [-1] * len(section.clocks)
        for index in np.flatnonzero(~packet).tolist():
            at = int(start[index])
            body = self._window.data[at + 8 : at + int(total[index]) - 4].tobytes()
            before = len(section.clocks)
            fault = section.take(int(kinds[index]), body, self.interfaces, self.statistics)
            if fault:
                place = self._window.offset + at
                self.damages.add(f"block {self._blocks + index + 1} at byte {place}", f"{fault}; it was skipped")
            described_at += [at] * (len(section.clocks) - before)
        return described_at

    def _packets(
        self, section: PcapngSection, start: Ints, total: Ints, described_at: list[int], simple: Flags
    ) -> PacketBatch:
        count = len(start)
        room = total >= np.where(simple, 16, 32)
        heads = _rows(self._window, np.where(room, start, 0), 28).view(section.word).reshape(count, 7)
        interface, high, low, captured, length = heads.T[2:].astype(np.int64, order="C")
        if simple.any():
            _simplify(section, simple, total, (interface, captured, length))
        number = np.arange(self.packets + 1, self.packets + count + 1)
        self.packets += count
        described = interface < np.searchsorted(np.array(described_at, np.int64), start)
        fits = room & (captured <= total - np.where(simple, 16, 32))
        self.damages.add_packets(number[~fits], "its block is shorter than its captured length")
        self.damages.add_packets(number[fits & ~described], "refers to an interface that is not described before it")
        good = fits & described
        interface = np.where(good, interface, 0)
        time = section.nanoseconds(interface, high, low, good)
        batch = PacketBatch(
            data=self._window.data,
            start=start + np.where(simple, 12, 28),
            captured=captured,
            length=np.maximum(length, captured),
            time=self._in_between(time, simple) if simple.any() else time,
            interface=np.array(section.numbers, np.int64)[interface] if section.numbers else interface,
            direction=section.directions(self._window.data, start, total, captured, good & ~simple),
            number=number,
        )
        self._time = int(batch.time[-1])
        return batch if good.all() else batch.select(good)

    def _in_between(self, time: Ints, simple: Flags) -> Ints:
        """Give simple packets, which have no timestamp, the time of the packet before them."""
        before = np.maximum.accumulate(np.where(simple, -1, np.arange(len(time))))
        return np.where(before < 0, self._time, time[np.maximum(before, 0)])

    def _plain(self, batch: PacketBatch) -> PacketBatch:
        """Convert a batch to Ethernet and strip mirror encapsulations; drop and report unreadable packets."""
        for number in np.flatnonzero(np.bincount(batch.interface)).tolist():
            linktype = self.interfaces[number].linktype
            if linktype == pcapng.LINKTYPE_ETHERNET:
                continue
            rows = np.flatnonzero(batch.interface == number)
            plain = to_ethernet(batch.data, linktype, *(c[rows] for c in (batch.start, batch.captured, batch.length)))
            batch.start[rows], batch.captured[rows], batch.length[rows] = plain[:3]
            batch.direction[rows] = np.where(batch.direction[rows] == 0, plain.direction, batch.direction[rows])
            if not plain.good.all():
                if foreign := int(plain.foreign.sum()):
                    self.foreign[linktype] += foreign
                what = f"cannot be decoded with link type {linktype}"
                self.damages.add_packets(batch.number[rows[~plain.good & ~plain.foreign]], what)
                kept = np.ones(len(batch.start), np.bool_)
                kept[rows] = plain.good
                batch = batch.select(kept)
        batch, found = unwrap(batch)
        self.mirrored += found
        return batch


def _parts(count: int) -> Iterator[slice]:
    """Return slices of at most ``MOST`` packets."""
    return (slice(first, first + MOST) for first in range(0, count, MOST))


def _rows(window: FileWindow, at: Ints, size: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return ``size`` bytes from each offset, in one copy."""
    shape = (len(window.data) - size + 1,)
    return np.ndarray(shape, f"V{size}", window.data, strides=(1,))[at]


def _simplify(section: PcapngSection, simple: Flags, total: Ints, columns: tuple[Ints, Ints, Ints]) -> None:
    """Fill in the columns of simple packets: first interface, and captured length from snaplen and block size."""
    interface, captured, length = columns
    length[simple] = interface[simple]
    interface[simple] = 0
    snaplen = section.snaplens[0] if section.snaplens else 0
    most = np.minimum(length, snaplen) if snaplen else length
    captured[simple] = np.minimum(most, total - 16)[simple]


def _kinds(window: FileWindow, start: Ints, section: PcapngSection) -> Ints:
    return _rows(window, start, 4).view(section.word).ravel().astype(np.int64)


def _first(marks: Flags) -> int | None:
    index = int(marks.argmax()) if len(marks) else 0
    return index if len(marks) and marks[index] else None
