"""``rocelab follow``: follow one packet from link to link."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.capture_source import CaptureArgument, open_capture
from lab.cli.kit.fit_columns import Column, TableLayout, left_out_note
from lab.cli.kit.output import JsonFlag, print_json, stdout
from lab.errors import ExitCode, UsageError
from lab.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.views.follow import Copy, Track

_GREATEST = 2**24 - 1
_COLUMNS: Final = (
    Column("copy", "copy"),
    Column("packet", "packet", 3),
    Column("link", "link"),
    Column("direction", "", 4),
    Column("at", "at ns", 1),
    Column("delay", "delay ns"),
    Column("TTL", "TTL", 5),
    Column("VNI", "VNI", 6),
    Column("ECN", "ECN", 2),
)


def follow(
    file: CaptureArgument,
    packet: Annotated[str, typer.Argument(metavar="QPN:PSN", help="The packet's DestQP and PSN, like 0x11:4711.")],
    json: JsonFlag = False,
) -> None:
    """Follow one packet over all links of a capture: times, delay of each hop, and retransmissions.

    Exit code 1 if no link saw the packet.
    """
    from lab.analysis.views import follow as analysis  # noqa: PLC0415 - NumPy takes a while to import

    qp, psn = _wanted(packet)
    with open_capture(file) as stream:
        tracks = analysis.follow(stream, str(file), qp, psn)
    if json:
        print_json([_facts(track) for track in tracks])
    else:
        for track in tracks:
            _print(track)
    if not tracks:
        if not json:
            _line(f"no packet to QP {qp:#x} with PSN {psn}: rocelab dissect --summary --filter 'qpn=={qp:#x}'")
        raise typer.Exit(ExitCode.FAIL)


def _wanted(text: str) -> tuple[int, int]:
    qp, _, psn = text.partition(":")
    try:
        found = int(qp, 0), int(psn, 0)
    except ValueError as error:
        raise UsageError(f"{text!r} names no packet", "write QPN:PSN, like 0x11:4711") from error
    if not all(0 <= value <= _GREATEST for value in found):
        raise UsageError(f"{text!r} names no packet", f"QPN and PSN are from 0 to {_GREATEST}")
    return found


def _facts(track: Track) -> dict[str, Any]:
    facts = asdict(track)
    for told, copy in zip(facts["copies"], track.copies, strict=True):
        told |= {"delays": copy.delays, "circles": copy.circles}
    return facts


def _print(track: Track) -> None:
    again = len(track.copies) - 1
    sent = f"sent once, seen {_times(len(track.copies[0].sightings))}" if not again else f"sent again {_times(again)}"
    title = f"{track.opcode}  {track.src} > {track.dst}  QP {track.qp:#x}  PSN {track.psn}: {sent}"
    start = track.copies[0].sightings[0].time
    rows = [row for number, copy in enumerate(track.copies, 1) for row in _rows(number, copy, start)]
    drawn, left_out = TableLayout(_COLUMNS).draw("", rows, stdout.width)
    _line(title)
    stdout.print(drawn)
    if left_out:
        _line(left_out_note(left_out, "--json has all."))
    for number, copy in enumerate(track.copies, 1):
        first, last = copy.sightings[0], copy.sightings[-1]
        took = format_time((last.time - first.time) / 1e9)
        after = f", {format_time((first.time - start) / 1e9)} after the first one" if number > 1 else ""
        _line(f"copy {number}: {first.link} to {last.link} in {took}{after}")
        if copy.circles:
            passes = sum(sighting.link == copy.circles for sighting in copy.sightings)
            _line(f"it goes in a circle: {copy.circles} saw it {_times(passes)}, its TTL smaller each time")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _rows(number: int, copy: Copy, start: int) -> Iterator[tuple[object, ...]]:
    what = "1" if number == 1 else f"{number}, sent again"
    for sighting, delay in zip(copy.sightings, (None, *copy.delays), strict=True):
        yield (
            what, sighting.number, sighting.link, sighting.direction, sighting.time - start, delay, sighting.hops,
            sighting.vni, "CE" if sighting.marked else "",
        )  # fmt: skip
        what = ""


def _line(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
