"""``rocelab dissect``: a capture file, packet by packet."""

from __future__ import annotations

import contextlib
import json as json_text
import os
import sys
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from lab.cli.headers import DIRECTIONS, print_headers, summary_line
from lab.cli.hosts import FabricOption, parse_filter
from lab.cli.output import Answer, stderr, stdout
from lab.cli.source import CaptureArgument, open_capture
from lab.wire.filter.match import matches
from lab.wire.frame import decode
from lab.wire.opcodes import opcode_name
from lab.wire.pcapng import Direction
from lab.wire.summary import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.analysis.records import Reader
    from lab.wire.explain import Explanation
    from lab.wire.filter.expression import Expression
    from lab.wire.frame import Frame

_EXPLAINED: Final = 10
"""Packets that are explained when no limit is given."""


class Seen(NamedTuple):
    """A packet of the file: its number from 1, when (ns since 1970, and s since the first), and where it was seen.

    ``rate`` is that of the link in bit/s, where the file says it.
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
    summary: Annotated[bool, typer.Option("--summary", help="One line for each packet.")] = False,
    select: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Only packets like: qpn==0x11 and not ack.")
    ] = None,
    fabric: FabricOption = None,
    figures: Annotated[
        bool, typer.Option(help="Draw each header, and say why it matters, where it comes for the first time.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the packets of a capture file: each header with its meaning, or one line for each packet.

    A filter joins conditions by and, or, not and parentheses: qpn==0x11, psn in 100..200, opcode==write (send, read,
    atomic, flush, or a full name: rc_rdma_write_only), vni==10, dscp==26, host 10.0.0.1 (or src, dst), roce, cnp,
    ack, nak, rnr, ce, ect, pfc, pause. Where a fabric runs, or --fabric says which one, hosts have names: host h1.
    """
    wanted = parse_filter(select, fabric)
    if limit is None and not summary:
        limit = _EXPLAINED
    from lab.analysis.records import Reader  # noqa: PLC0415 - NumPy takes a while to import

    with open_capture(file) as stream, _until_the_reader_left():
        reader = Reader(stream, str(file))
        packets = islice((p for p in _packets(reader) if wanted is None or _is_wanted(wanted, p)), limit)
        if json:
            _print_array(_facts(packet) if summary else _explained(packet) for packet in packets)
        elif summary:
            _print_lines(packets)
        else:
            _print_headers(packets, figures=figures)
        _tell_losses(reader)


@contextlib.contextmanager
def _until_the_reader_left() -> Iterator[None]:
    """``rocelab dissect ... | head`` is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _packets(reader: Reader) -> Iterator[Seen]:
    first: int | None = None
    for record in reader:
        first = record.timestamp if first is None else first
        yield Seen(
            number=reader.number,
            timestamp=record.timestamp,
            time=(record.timestamp - first) / 1e9,
            interface=reader.names[record.interface],
            rate=reader.interfaces[record.interface].speed or None,
            direction=DIRECTIONS[Direction(record.direction)],
            length=record.length,
            data=bytes(record.data),
        )


def _is_wanted(wanted: Expression, packet: Seen) -> bool:
    return matches(wanted, decode(packet.data, packet.length))


def _print_lines(packets: Iterable[Seen]) -> None:
    """Plain writes: a capture has hundreds of thousands of lines."""
    for packet in packets:
        where = f"{packet.interface} {packet.direction}"
        line = describe(decode(packet.data, packet.length), packet.rate)
        sys.stdout.write(summary_line(packet.number, packet.time, where, line))


def _print_headers(packets: Iterable[Seen], *, figures: bool) -> None:
    taught: set[str] | None = set() if figures else None
    for packet in packets:
        where = f"{packet.interface} {packet.direction}".rstrip()
        stdout.print(
            f"Packet {packet.number}  {packet.time:.9f} s  {where}  {packet.length} bytes",
            style="bold cyan",
            markup=False,
            highlight=False,
        )
        told = _explain(packet)
        print_headers(told, taught)
        stdout.print()


def _explain(packet: Seen) -> Explanation:
    from lab.wire.explain import explain  # noqa: PLC0415 - scapy takes long to import, and --summary needs none

    return explain(packet.data, packet.length, packet.rate)


def _place(packet: Seen) -> dict[str, Any]:
    return {key: value for key, value in packet._asdict().items() if key not in {"data", "length", "rate"}}


def _facts(packet: Seen) -> dict[str, Any]:
    """What the summary line says, with names for programs; fields that the packet has not got are null."""
    frame = decode(packet.data, packet.length)
    return _place(packet) | _decoded(frame)


def _decoded(frame: Frame) -> dict[str, Any]:
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


def _explained(packet: Seen) -> dict[str, Any]:
    return _place(packet) | {"length": packet.length} | asdict(_explain(packet))


def _print_array(items: Iterable[dict[str, Any]]) -> None:
    """A JSON array, an element at a time; it is closed when the file turns out to be damaged, too."""
    separator, Answer.begun = "[", True
    try:
        for item in items:
            sys.stdout.write(f"{separator}\n{json_text.dumps(item)}")
            separator = ","
    finally:
        sys.stdout.write("[]\n" if separator == "[" else "\n]\n")


def _tell_losses(reader: Reader) -> None:
    for number, statistics in reader.statistics.items():
        if statistics.dropped:
            name = reader.names[number]
            stderr.print(f"{name}: {statistics.dropped} packets are missing, lost while capturing", markup=False)
