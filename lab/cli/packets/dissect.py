"""``rocelab dissect``: print a capture file packet by packet."""

from __future__ import annotations

import contextlib
import json as json_text
import os
import sys
from dataclasses import asdict, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from lab.cli.kit.capture_source import CaptureArgument, open_capture
from lab.cli.kit.host_names import FabricOption, parse_filter
from lab.cli.kit.output import JsonStream, stderr, stdout
from lab.cli.tables.packet_columns import COLUMNS, Shown, cells, head, parse_columns, row
from lab.cli.tables.packet_view import DIRECTIONS, print_headers, summary_line
from lab.units import counted
from lab.wire.filter.match import matches
from lab.wire.frame import decode
from lab.wire.opcodes import opcode_name
from lab.wire.pcapng import Direction
from lab.wire.summary import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.analysis.read.records import Reader
    from lab.wire.explain.explanation import FrameExplanation
    from lab.wire.filter.expression import Expression
    from lab.wire.frame import DecodedFrame

_EXPLAINED: Final = 10
"""Default limit of packets that are explained header by header."""


class TimeOrigin(StrEnum):
    """The origin of printed times: first packet, 1970, previous packet, or date and time."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    EPOCH = "epoch"
    DELTA = "delta"


class NumberedPacket(NamedTuple):
    """A packet of the file: number from 1, times (ns since 1970, s since the first packet), and interface.

    ``rate`` is the link's rate in bit/s, if the file contains it.
    """

    number: int
    timestamp: int
    time: float
    interface: str
    direction: str
    rate: int | None
    length: int
    data: bytes


def dissect(
    file: CaptureArgument,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Stop after this many packets ({_EXPLAINED}; all with --summary).")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print one line a packet.")] = False,
    select: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Only matching packets: qpn==0x11 and not ack.")
    ] = None,
    packet: Annotated[
        list[int] | None,
        typer.Option("--packet", min=1, metavar="N", help="Only the packet with this number. May be repeated."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"One line a packet with these columns: {', '.join(COLUMNS)}."),
    ] = None,
    time: Annotated[
        TimeOrigin, typer.Option(help="Times: since the first packet, as date, since 1970, or since the last line.")
    ] = TimeOrigin.RELATIVE,
    fabric: FabricOption = None,
    figures: Annotated[bool, typer.Option(help="Draw each header, and explain it at its first occurrence.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the packets of a capture file: each header with its meaning, or one line for each packet.

    A filter joins conditions by and, or, not and parentheses. Fields: qpn==0x11, psn in 100..200, opcode==write
    (send, read, atomic, flush, or a name like rc_rdma_write_only), vni, dscp, ecn, ttl, sport, dport, port, vlan,
    pcp, icrc==bad. Hosts: host 10.0.0.1, src 10.0.0.0/24, dst h1 (a name of the running fabric, or of --fabric).
    Interfaces: interface==leaf1:swp1, or leaf1 (a node). Connections: conn==0x11, both ways. Words: roce, cnp, ack,
    nak, rnr, ce, ect, pfc, pause, tcp, udp. Wireshark's names work, too: infiniband.bth.destqp==0x11.
    """
    shown = None if columns is None else parse_columns(columns)
    wanted = parse_filter(select, fabric, file)
    if limit is None and not (summary or shown or packet):
        limit = _EXPLAINED
    from lab.analysis.read.records import Reader  # noqa: PLC0415 - NumPy takes a while to import

    with open_capture(file) as stream, _until_the_reader_left():
        reader = Reader(stream, str(file))
        packets = _Limited(_chosen(reader, wanted, frozenset(packet or ())), limit, live=not file.is_file())
        timed = _Timed(time)
        if json:
            _print_json(packets, timed, reader, summary=summary, columns=shown)
        elif shown:
            _print_columns(packets, timed, shown)
        elif summary:
            _print_lines(packets, timed)
        else:
            _print_headers(packets, timed, figures=figures)
        if packets.stopped and not json:
            most = counted(limit or 0, "packet")
            note = f"stopped at the limit of {most}: --limit N for more, --packet N for one, --summary for all"
            stderr.print(note, markup=False, highlight=False, soft_wrap=True)
        if not json and not packet and not packets.count:
            _tell_none(reader)
        if not json:
            _tell_beyond(reader, () if packets.stopped else packet or ())
            _tell_others(reader)
        _tell_losses(reader)


class _Limited:
    """Yields and counts the first packets, and records whether more follow; ``live`` input is not waited for."""

    def __init__(self, packets: Iterator[NumberedPacket], limit: int | None, *, live: bool) -> None:
        self._packets, self._limit, self._live = packets, limit, live
        self.stopped = False
        self.count = 0

    def __iter__(self) -> Iterator[NumberedPacket]:
        for packet in islice(self._packets, self._limit):
            self.count += 1
            yield packet
        self.stopped = self.count == self._limit and (self._live or next(self._packets, None) is not None)


class _Timed:
    """Formats the times of packets as the user selected."""

    def __init__(self, clock: TimeOrigin) -> None:
        self._clock = clock
        self._before: int | None = None

    def __call__(self, packet: NumberedPacket) -> str:
        before, self._before = self._before, packet.timestamp
        match self._clock:
            case TimeOrigin.RELATIVE:
                return f"{packet.time:.9f}"
            case TimeOrigin.DELTA:
                return f"{0 if before is None else (packet.timestamp - before) / 1e9:.9f}"
        seconds, nanoseconds = divmod(packet.timestamp, 10**9)
        if self._clock is TimeOrigin.EPOCH:
            return f"{seconds}.{nanoseconds:09}"
        try:
            date = f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
        except (OverflowError, ValueError, OSError):  # beyond the range of dates
            date = str(seconds)
        return f"{date}.{nanoseconds:09}"


@contextlib.contextmanager
def _until_the_reader_left() -> Iterator[None]:
    """End silently if the reader closes the output, for example ``head``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _chosen(reader: Reader, wanted: Expression | None, numbers: frozenset[int]) -> Iterator[NumberedPacket]:
    """Yield the packets that match the filter and have one of these numbers, or any number without ``numbers``."""
    last = max(numbers, default=0)
    for packet in _packets(reader):
        if last and packet.number > last:
            return
        if (not numbers or packet.number in numbers) and (wanted is None or _is_wanted(wanted, packet)):
            yield packet


def _tell_none(reader: Reader) -> None:
    """Print why there is no output."""
    of = f": the file has {counted(reader.number, 'other packet')}" if reader.number else ""
    stderr.print(f"no packet matches{of}" if of else "the file has no packets", markup=False, highlight=False)


def _tell_beyond(reader: Reader, numbers: Sequence[int]) -> None:
    """Print a note for each number beyond the last packet of the file."""
    for number in numbers:
        if number > reader.number:
            note = f"there is no packet {number}: the file has {reader.number}"
            stderr.print(note, markup=False, highlight=False, soft_wrap=True)


def _packets(reader: Reader) -> Iterator[NumberedPacket]:
    first: int | None = None
    for record in reader:
        first = record.timestamp if first is None else first
        yield NumberedPacket(
            number=reader.number,
            timestamp=record.timestamp,
            time=(record.timestamp - first) / 1e9,
            interface=reader.names[record.interface],
            rate=reader.interfaces[record.interface].speed or None,
            direction=DIRECTIONS[Direction(record.direction)],
            length=record.length,
            data=bytes(record.data),
        )


def _is_wanted(wanted: Expression, packet: NumberedPacket) -> bool:
    return matches(wanted, decode(packet.data, packet.length), packet.interface)


def _print_columns(packets: Iterable[NumberedPacket], timed: _Timed, names: tuple[str, ...]) -> None:
    sys.stdout.write(head(names))
    for packet in packets:
        sys.stdout.write(row(names, _as_shown(packet, timed)))


def _as_shown(packet: NumberedPacket, timed: _Timed) -> Shown:
    frame = decode(packet.data, packet.length)
    return Shown(packet.number, timed(packet), packet.interface, packet.direction, packet.rate, frame)


def _print_lines(packets: Iterable[NumberedPacket], timed: _Timed) -> None:
    """Write lines without Rich, because a capture may have hundreds of thousands."""
    for packet in packets:
        where = f"{packet.interface} {packet.direction}"
        line = describe(decode(packet.data, packet.length), packet.rate)
        sys.stdout.write(summary_line(packet.number, timed(packet), where, line))


def _print_headers(packets: Iterable[NumberedPacket], timed: _Timed, *, figures: bool) -> None:
    taught: set[str] | None = set() if figures else None
    for packet in packets:
        where = f"{packet.interface} {packet.direction}".rstrip()
        stdout.print(
            f"Packet {packet.number}  {timed(packet)} s  {where}  {packet.length} bytes",
            style="bold cyan",
            markup=False,
            highlight=False,
        )
        told = _explain(packet)
        print_headers(told, taught)
        stdout.print()


def _explain(packet: NumberedPacket) -> FrameExplanation:
    from lab.wire.explain.explanation import explain  # noqa: PLC0415 - scapy takes long to import, and --summary needs none

    return explain(packet.data, packet.length, packet.rate)


def _place(packet: NumberedPacket) -> dict[str, Any]:
    return {key: value for key, value in packet._asdict().items() if key not in {"data", "length", "rate"}}


def _facts(packet: NumberedPacket) -> dict[str, Any]:
    """Return the fields of the summary line by name; fields that the packet lacks are null."""
    return _decoded(decode(packet.data, packet.length))


def _decoded(frame: DecodedFrame) -> dict[str, Any]:
    facts = asdict(replace(frame, inner=None))
    facts["icrc"] = frame.icrc and frame.icrc.value
    facts["opcode_name"] = frame.bth and opcode_name(frame.bth.opcode)
    if frame.aeth is not None:
        facts["aeth"] = {
            "syndrome": frame.aeth.syndrome.octet,
            "meaning": str(frame.aeth.syndrome),
            "msn": frame.aeth.msn,
        }
    if frame.inner is not None:
        facts["inner"] = _decoded(frame.inner)
    return facts


def _explained(packet: NumberedPacket) -> dict[str, Any]:
    return {"length": packet.length} | asdict(_explain(packet))


def _print_json(
    packets: _Limited, timed: _Timed, reader: Reader, *, summary: bool, columns: tuple[str, ...] | None
) -> None:
    """Write an object with the packets one at a time; it is completed even if the file turns out to be damaged."""
    separator, JsonStream.begun = "", True
    sys.stdout.write('{"packets": [')
    try:
        for packet in packets:
            item = (
                cells(columns, _as_shown(packet, timed))
                if columns
                else _place(packet) | {"clock": timed(packet)} | (_facts(packet) if summary else _explained(packet))
            )
            sys.stdout.write(f"{separator}\n{json_text.dumps(item)}")
            separator = ","
    finally:
        rest = json_text.dumps({"stopped_at_limit": packets.stopped, "not_decoded": reader.not_decoded})
        sys.stdout.write(f"\n], {rest[1:]}\n")


def _tell_others(reader: Reader) -> None:
    for name, count in reader.not_decoded.items():
        note = f"{counted(count, 'packet')} of {name} not shown: such links are not read"
        stderr.print(note, markup=False, highlight=False, soft_wrap=True)


def _tell_losses(reader: Reader) -> None:
    for number, statistics in reader.statistics.items():
        if statistics.dropped:
            lost = f"{counted(statistics.dropped, 'packet')} missing, lost while capturing"
            stderr.print(f"{reader.names[number]}: {lost}", markup=False)
