"""Show one connection as a ladder: the packets between its two ends over time, and pauses on its links.

Consecutive packets of one kind and direction are one rung.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode.columns import PacketClass, decode
from lab.analysis.pfc.pause_intervals import ALL_CLASSES, FRAME
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.packet_batch import CHUNK, rows
from lab.analysis.results.number_format import DIRECTIONS, address, class_or_none
from lab.analysis.transport.psn_tracker import distance
from lab.wire.header_fields import CE, EthernetFields
from lab.wire.headers import PSN_MASK, is_stray_pause
from lab.wire.opcodes import opcode_name
from lab.wire.syndrome import AckKind, Syndrome
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.analyser import Choose
    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.qp_connections import Connection
    from lab.analysis.read.packet_batch import Flags, PacketBatch

MAX_RUNGS: Final = 20_000
"""Rungs that are kept; further ones are only counted."""
_PART: Final = re.compile(r"^\S+ (?:RDMA )?(.*?)(?: (?:First|Middle|Last|Only)\b.*)?$")
_KINDS: Final = {AckKind.ACK: "ACK", AckKind.RNR_NAK: "RNR NAK", AckKind.NAK: "NAK"}


@dataclass(slots=True)
class Rung:
    """Packets of one ``kind``: request, response, ACK, NAK, RNR NAK, CNP, XOFF, XON or Pause.

    * ``time``, ``end``: of the first and the last packet, in seconds since the first packet of the file.
    * ``there``: whether it goes from left to right; None for pauses.
    * ``what``: the operation, or the meaning of a NAK.
    * ``psn``, ``last``: the first and the last PSN. ``again``: they had been captured before. ``missing``: PSNs
      skipped before them. ``marked``: packets with CE.
    * A pause has ``priority`` (None is all) and ``quanta``, at ``link`` in ``direction``.
    """

    time: float
    end: float
    there: bool | None
    kind: str
    what: str
    link: str
    direction: str
    psn: int | None = None
    last: int | None = None
    packets: int = 1
    bytes: int = 0
    marked: int = 0
    again: bool = False
    missing: int = 0
    priority: int | None = None
    quanta: int | None = None

    def takes(self, other: Rung) -> bool:
        """Return whether ``other`` continues this rung."""
        mine = (self.there, self.kind, self.what, self.link, self.direction, self.again, self.priority)
        if mine != (other.there, other.kind, other.what, other.link, other.direction, other.again, other.priority):
            return False
        if self.kind == "NAK":
            return other.psn == self.psn
        if self.last is not None and self.kind in {"request", "response"}:
            return not other.missing and other.psn == self.last + 1 & PSN_MASK
        return True

    def take(self, other: Rung) -> None:
        """Add a rung to this one."""
        self.end, self.last = other.end, other.last
        self.packets += 1
        self.bytes += other.bytes
        self.marked += other.marked


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs of a connection in file order, and the number of further ones."""

    connection: Connection
    rungs: tuple[Rung, ...]
    more: int


def ladder(
    stream: IO[bytes], source: str, connection: Connection, *, choose: Choose | None = None, chunk: int = CHUNK
) -> Ladder:
    """Read a capture for one connection; ``choose`` marks the packets of a batch that become rungs."""
    capture = CaptureFile(stream, source, chunk)
    climber = _Climber(connection, capture)
    for batch in capture:
        if len(batch.start):
            climber.add(batch, None if choose is None else choose(batch, capture.names))
    return Ladder(connection, tuple(climber.rungs), climber.more)


class _Way(NamedTuple):
    """One direction of the connection."""

    there: bool
    src: str
    dst: str
    qp: int
    link: str


class _Climber:
    def __init__(self, connection: Connection, capture: CaptureFile) -> None:
        self.rungs: list[Rung] = []
        self.more = 0
        self._capture = capture
        self._first: int | None = None
        self._links = frozenset(connection.links)
        self._fronts: dict[
            tuple[bool, bool], int
        ] = {}  # by direction, and whether it answers; -1: any PSN may follow
        left, right = connection.left, connection.right
        ways = ((True, left, right, connection.there), (False, right, left, connection.back))
        self._ways = [_Way(t, a.host, b.host, b.qp, link) for t, a, b, link in ways if b.qp is not None]

    def add(self, batch: PacketBatch, chosen: Flags | None) -> None:
        """Add the packets of a batch. PSNs of packets that are not ``chosen`` are still tracked."""
        if self._first is None:
            self._first = int(batch.time[0])
        columns, roce = decode(batch)
        found = [*self._packets(batch, columns, roce), *self._pauses(batch, columns)]
        for row, rung in sorted(found, key=lambda item: item[0]):
            if chosen is None or chosen[row]:
                self._add(rung)

    def _add(self, rung: Rung) -> None:
        if self.rungs and not self.more and self.rungs[-1].takes(rung):
            self.rungs[-1].take(rung)
        elif len(self.rungs) < MAX_RUNGS:
            self.rungs.append(rung)
        else:
            self.more += 1

    def _since(self, time: int) -> float:
        return (time - (self._first or 0)) / 1e9

    def _packets(self, batch: PacketBatch, columns: Columns, roce: Roce) -> Iterator[tuple[int, Rung]]:
        names = self._capture.names
        links = [names[number] for number in batch.interface[roce.row].tolist()]
        for at in np.flatnonzero(np.isin(roce.destqp, [way.qp for way in self._ways])).tolist():
            row = int(roce.row[at])
            hosts = address(columns.src[:, row].tolist()), address(columns.dst[:, row].tolist())
            key = (*hosts, int(roce.destqp[at]), links[at])
            way = next((way for way in self._ways if (way.src, way.dst, way.qp, way.link) == key), None)
            if way is not None:
                yield row, self._rung(batch, columns, roce, (at, way))

    def _rung(self, batch: PacketBatch, columns: Columns, roce: Roce, place: tuple[int, _Way]) -> Rung:
        at, way = place
        row, opcode, psn = int(roce.row[at]), int(roce.opcode[at]), int(roce.psn[at])
        time = self._since(int(batch.time[row]))
        kind, what = _kind(opcode, int(roce.syndrome[at]))
        rung = Rung(
            time=time,
            end=time,
            there=way.there,
            kind=kind,
            what=what,
            link=way.link,
            direction=DIRECTIONS[int(batch.direction[row])],
            psn=psn,
            last=psn,
            bytes=int(roce.payload[at]),
            marked=int(columns.ecn[row] == CE),
        )
        if kind == "CNP":
            rung.psn = rung.last = None
        if kind in {"request", "response"}:
            self._place(rung, psn, opcode)
        return rung

    def _place(self, rung: Rung, psn: int, opcode: int) -> None:
        """Set whether the PSN was captured before, and how many are missing; after a READ any PSN may follow."""
        key = (bool(rung.there), rung.kind == "response")
        front = self._fronts.get(key, -1)
        ahead = 0 if front < 0 else distance(psn, front)
        rung.again = ahead < 0
        rung.missing = max(0, ahead)
        if ahead >= 0:
            open_end = bool(ops.READ_REQUEST[opcode]) or key[1]
            self._fronts[key] = -1 if open_end else psn + 1 & PSN_MASK

    def _pauses(self, batch: PacketBatch, columns: Columns) -> Iterator[tuple[int, Rung]]:
        control = np.flatnonzero(columns.kind == PacketClass.CONTROL)
        names = self._capture.names
        frames = rows(batch.data, columns.ip[control], FRAME.itemsize).view(FRAME)
        receiver = EthernetFields.DST.gather(batch.data, columns.l2[control])
        obeyed = ~is_stray_pause(frames["opcode"].astype(np.int64), receiver)
        control, frames = control[obeyed], frames[obeyed]
        told = (frames["opcode"].tolist(), frames["first"].tolist(), frames["quanta"].tolist())
        for row, opcode, first, quanta in zip(control.tolist(), *told, strict=True):
            link = names[int(batch.interface[row])]
            if link not in self._links or opcode not in {PAUSE_OPCODE, PFC_OPCODE}:
                continue
            time, direction = self._since(int(batch.time[row])), DIRECTIONS[int(batch.direction[row])]
            pairs = (
                [(ALL_CLASSES, first)]
                if opcode == PAUSE_OPCODE
                else [(c, quanta[c]) for c in range(8) if first >> c & 1]
            )
            for cls, value in pairs:
                kind = "XOFF" if value else "XON"
                rung = Rung(
                    time=time,
                    end=time,
                    there=None,
                    kind=kind,
                    what="",
                    link=link,
                    direction=direction,
                    priority=class_or_none(cls),
                    quanta=value,
                )
                yield row, rung


def _kind(opcode: int, syndrome: int) -> tuple[str, str]:
    if ops.CNP[opcode]:
        return "CNP", ""
    match = _PART.match(opcode_name(opcode))
    what = match[1] if match else opcode_name(opcode)
    if ops.READ_RESPONSE[opcode]:
        return "response", what
    if syndrome >= 0:
        told = Syndrome.decode(syndrome)
        return _KINDS.get(told.kind, "reserved"), str(told).partition(", ")[2]
    return "request", what
