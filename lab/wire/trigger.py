"""Keep the last packets in memory, and write them to a file only if an event occurs.

Events are detected in the packets themselves, on any link. Other events can be reported by the caller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.units import counted, quanta_to_seconds
from lab.wire.filter.match import ANSWERS
from lab.wire.frame import decode
from lab.wire.header_fields import CE, OpcodeFields
from lab.wire.headers import PSN_HALF, PSN_MASK
from lab.wire.opcodes import UD, Opcode, opcode_name
from lab.wire.syndrome import AckKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from lab.wire.frame import DecodedFrame
    from lab.wire.headers import Bth
    from lab.wire.pcapng import Interface, Record, Sink, Statistics

STORM: Final = 200_000_000
"""ns without an XON after which a pause is a storm: the usual default of PFC watchdogs."""
_FLOWS: Final = 16384
"""Flows whose next PSN is remembered; the oldest are dropped."""


class TriggerKind(StrEnum):
    """The kinds of events."""

    DROP = "drop"
    """PSNs are missing: packets were lost or reordered before this link."""
    NAK = "nak"
    RNR = "rnr"
    CNP = "cnp"
    CE = "ce"
    XOFF = "xoff"
    STORM = "storm"


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """An event: kind, time, link and description."""

    kind: TriggerKind
    timestamp: int
    """ns since 1970."""
    link: str
    what: str


class Watcher:
    """Checks packets, in order, for the kinds of events in ``wanted``."""

    def __init__(self, wanted: Collection[TriggerKind]) -> None:
        self._wanted = frozenset(wanted)
        self._fronts: dict[tuple[int, str, str, int], int] = {}
        self._paused: dict[tuple[int, int, int], tuple[int, int]] = {}  # start, and end according to the quanta

    def look(self, record: Record, interface: Interface) -> TriggerEvent | None:
        """Return the event in a packet, if there is one."""
        frame: DecodedFrame | None = decode(bytes(record.data), record.length)
        while frame is not None:
            for kind, what in self._told(record, interface, frame):
                if kind in self._wanted:
                    return TriggerEvent(kind=kind, timestamp=record.timestamp, link=interface.name, what=what)
            frame = frame.inner
        return None

    def _told(self, record: Record, interface: Interface, frame: DecodedFrame) -> Iterator[tuple[TriggerKind, str]]:
        who = f"{frame.src} to {frame.dst}"
        if frame.bth is not None:
            who = f"{who} QP {frame.bth.destqp:#x}"
            yield from self._answered(frame, frame.bth, who)
            if TriggerKind.DROP in self._wanted and (missing := self._missing(record.interface, frame, frame.bth)):
                yield TriggerKind.DROP, f"{who}: {counted(missing, 'PSN')} missing before PSN {frame.bth.psn}"
        if frame.ecn == CE:
            yield TriggerKind.CE, f"{who}: marked CE"
        yield from self._pauses(record, interface, frame)

    def _answered(self, frame: DecodedFrame, bth: Bth, who: str) -> Iterator[tuple[TriggerKind, str]]:
        if bth.opcode == Opcode.CNP:
            yield TriggerKind.CNP, f"{who}: CNP"
        if frame.aeth is not None and bth.opcode in ANSWERS:
            told = frame.aeth.syndrome
            if told.kind in {AckKind.NAK, AckKind.RNR_NAK}:
                yield (
                    (TriggerKind.NAK if told.kind is AckKind.NAK else TriggerKind.RNR),
                    f"{who}: {told} PSN {bth.psn}",
                )

    def _missing(self, interface: int, frame: DecodedFrame, bth: Bth) -> int:
        """Return the PSNs skipped before a request, 0 for answers and datagrams; after a READ, any PSN may follow.

        The PSNs that a READ takes are unknown here (IBA vol. 1 section 9.7.3).
        """
        answer = frame.aeth is not None or frame.origremdt is not None or bth.opcode == Opcode.CNP
        if answer or "Response" in opcode_name(bth.opcode) or OpcodeFields.TRANSPORT.of(bth.opcode) == UD:
            return 0
        key = (interface, frame.src, frame.dst, bth.destqp)
        front = self._fronts.pop(key, bth.psn)
        ahead = (bth.psn - front + PSN_HALF & PSN_MASK) - PSN_HALF
        if "READ Request" not in opcode_name(bth.opcode):
            self._fronts[key] = bth.psn + 1 & PSN_MASK if ahead >= 0 else front
            if len(self._fronts) > _FLOWS:
                del self._fronts[next(iter(self._fronts))]
        return max(0, ahead)

    def _pauses(self, record: Record, interface: Interface, frame: DecodedFrame) -> Iterator[tuple[TriggerKind, str]]:
        classes = {} if frame.pfc is None or frame.stray else frame.pfc.classes
        if frame.pause is not None and not frame.stray:
            classes = {-1: frame.pause.quanta}
        for cls, quanta in classes.items():
            key, what = (record.interface, record.direction, cls), "all" if cls < 0 else f"priority {cls}"
            since, until = self._paused.pop(key, (record.timestamp, record.timestamp))
            if not quanta:
                continue
            since = since if record.timestamp <= until else record.timestamp
            lasts = quanta_to_seconds(quanta, interface.speed) if interface.speed else 1.0
            self._paused[key] = (since, record.timestamp + int(lasts * 1e9))
            yield TriggerKind.XOFF, f"{frame.src}: XOFF {what}"
            if record.timestamp - since >= STORM:
                yield (
                    TriggerKind.STORM,
                    f"{frame.src}: XOFF {what} for {(record.timestamp - since) / 1e6:.0f} ms without an end",
                )


class KeepOnEvent:
    """A sink that keeps the last ``before`` bytes in memory, until an event makes it write to a file.

    It then writes the kept packets and those of the next ``after`` ns, and calls ``when_done``. ``event`` is the
    first event; later ones are ignored.
    """

    def __init__(
        self, watcher: Watcher, before: int, after: int, opened: Callable[[], Sink], when_done: Callable[[], None]
    ) -> None:
        self.event: TriggerEvent | None = None
        self._watcher, self._before, self._after = watcher, before, after
        self._opened, self._when_done = opened, when_done
        self._interfaces: list[Interface] = []
        self._kept: deque[Record] = deque()
        self._size = 0
        self._sink: Sink | None = None
        self._until = 0

    def add_interface(self, interface: Interface) -> int:
        """Remember an interface, for the file."""
        self._interfaces.append(interface)
        return len(self._interfaces) - 1

    def write(self, records: Iterable[Record]) -> None:
        """Keep packets in memory, or write them after an event."""
        for record in records:
            if self.event is None:
                self._remember(record)
                found = self._watcher.look(record, self._interfaces[record.interface])
                if found is not None:
                    self.happened(found)
            elif self._sink is not None and record.timestamp <= self._until:
                self._sink.write([record])
            else:
                self._when_done()

    def happened(self, event: TriggerEvent) -> None:
        """Handle an event: open the file, and write the packets in memory."""
        if self.event is not None:
            return
        self.event, self._until = event, event.timestamp + self._after
        self._sink = self._opened()
        for interface in self._interfaces:
            self._sink.add_interface(interface)
        self._sink.write(self._kept)
        self._kept.clear()

    def tick(self, now: int) -> None:
        """Check for the end at ``now``, ns since 1970: idle links deliver no packet that would end the capture."""
        if self.event is not None and now > self._until:
            self._when_done()

    def write_statistics(self, interface: int, statistics: Statistics) -> None:
        """Write statistics to the file, if there is one."""
        if self._sink is not None:
            self._sink.write_statistics(interface, statistics)

    def _remember(self, record: Record) -> None:
        """Keep a copy, as the record's buffer is reused."""
        self._kept.append(record._replace(data=bytes(record.data)))
        self._size += len(record.data)
        while self._size > self._before and len(self._kept) > 1:
            self._size -= len(self._kept.popleft().data)
