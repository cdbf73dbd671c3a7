"""The tables of ``rocelab top`` and ``replay`` for a single moment, on the terminal and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.fit_columns import Column, TableLayout, left_out_note
from lab.cli.kit.output import stdout, table
from lab.kernel.process.time_source import VIRTUAL
from lab.telemetry.read.dashboard import DEVICES, PORTS
from lab.tui import cells
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.telemetry.read.dashboard import Sheet, Snapshot
    from lab.telemetry.read.timeline_frames import Film

_NS: Final = 10**9


def as_data(film: Film, at: int) -> dict[str, Any]:
    """Return the figures of a moment for JSON; missing ones are None."""
    sheets = {sheet.name: _sheet(film, sheet, at) for sheet in (PORTS, DEVICES)}
    look = film.look(PORTS, at)
    return {
        "name": film.name,
        "time": film.time,
        "ns": look.ns,
        "seconds": look.seconds,
        **sheets,
        "sessions": [
            {
                "node": each.node, "interface": each.interface, "protocol": each.protocol, "state": each.state,
                "since_ns": each.since, "changes": each.changes,
            }
            for each in film.standings(at)
        ],
        "queue_pairs": [
            {
                "node": each.node, "interface": each.interface, "qpn": each.qpn, "type": each.kind,
                "remote_qpn": each.remote, "state": each.state, "program": each.program, "since_ns": each.since,
                "rate_bps": each.rate,
            }
            for each in film.queue_pairs(at)
        ],
        "job_ranks": [
            {
                "job": each.job, "rank": each.rank, "node": each.node, "interface": each.interface, "step": each.step,
                "step_time_s": each.step_time, "share": each.share, "waiting_s": each.waiting, "late_s": each.late,
                "straggler": each.straggler, "ended_ns": each.ended,
            }
            for each in film.job_ranks(at)
        ],
        "requesters": [
            {
                "transfer": each.transfer, "node": each.node, "interface": each.interface, "target": each.target,
                "complete": each.complete, "under_way": each.under_way,
                "last_s": each.last if each.complete else None, "mean_s": each.mean if each.complete else None,
            }
            for each in film.requesters(at)
        ],
    }  # fmt: skip


def _sheet(film: Film, sheet: Sheet, at: int) -> dict[str, dict[str, float | None]]:
    look = film.look(sheet, at)
    return {
        name: {key: None if math.isnan(value) else value for key, value in look.of(name).items()}
        for name in look.names
    }


def _in_time(film: Film) -> str:
    return ", in seconds of virtual time" if film.time == VIRTUAL else ""


def _print_sheet(heading: str, title: str, look: Snapshot, lines: Sequence[Sequence[str]], by: int) -> None:
    """Print ports or devices. A narrow terminal lacks columns: those without a value first, then the last ones.

    The column by which the lines are sorted stays.
    """
    places = range(1, len(look.measures) + 1)
    silent = {place for place in places if not any(_has_value(line[place]) for line in lines)}
    columns = [
        Column(
            measure.title, measure.title, place + (len(look.measures) if place in silent else 0) if place != by else 0
        )
        for place, measure in enumerate(look.measures, start=1)
    ]
    drawn, left_out = TableLayout([Column(title, title), *columns]).draw(heading, lines, stdout.width)
    stdout.print(drawn)
    known = {look.measures[place - 1].title for place in silent}
    if missing := [name for name in left_out if name not in known]:
        note = left_out_note(missing, "--json has all.")
        stdout.print(note, markup=False, highlight=False, soft_wrap=True)


def _has_value(cell: str) -> bool:
    return cell not in {cells.NOTHING, ""}


def show(film: Film, at: int, sort: str = "tx_bps") -> None:
    """Print the tables of a moment; ports and devices without activity are left out."""
    for sheet, title in ((PORTS, "port"), (DEVICES, "device")):
        look = film.look(sheet, at)
        names = [measure.name for measure in look.measures]
        by = names.index(sort) + 1 if sort in names else 0 if sheet is PORTS else 1
        busy = [line for line in cells.rows(look, by, descending=by > 0) if any(map(_has_value, line[1:]))]
        quiet = len(look.names) - len(busy)
        heading = f"{sheet.name} of {film.name}{_in_time(film)}" + (f", {quiet} more are idle" if quiet else "")
        if look.names:
            _print_sheet(heading, title, look, busy, by)
    if ranks := film.job_ranks(at):
        stdout.print(table("training jobs", cells.JOB_RANKS, map(cells.job_rank, ranks)))
    if hosts := film.requesters(at):
        stdout.print(table("requests of transfers", cells.REQUESTERS, map(cells.requester, hosts)))
    rows = [(each.node, each.interface, each.protocol, each.state, each.changes) for each in film.standings(at)]
    if rows:
        stdout.print(table("sessions", ("node", "interface", "protocol", "state", "changes"), rows))
    qps = [
        (
            *(f"{each.node}:{each.interface}", each.qpn, each.kind, each.state, each.remote or "", each.program),
            "" if each.rate is None else format_rate(each.rate),
        )
        for each in film.queue_pairs(at)
    ]
    if qps:
        stdout.print(table("queue pairs", ("device", "QP", "type", "state", "to QP", "of", "limited to"), qps))
