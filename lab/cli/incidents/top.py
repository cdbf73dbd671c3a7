"""``rocelab top``: live tables of a fabric. They are drawn here, from samples that are taken where the fabric runs.

Drawing in the VM would take CPU time from the fabric, so only the recorder's sampler runs there and streams its log.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.cli.incidents.replay import require_terminal
from lab.cli.kit.child_command import child_command
from lab.cli.kit.complete import FabricOption, fabric_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, print_json
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.cli.kit.child_command import ChildCommand
    from lab.telemetry.read.timeline_frames import LiveFilm

_CHUNK: Final = 1 << 16
Hz = Annotated[float, typer.Option(help="Samples of all counters per second.")]


def top(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FABRIC", help="The fabric, if several run.", autocompletion=fabric_names),
    ] = None,
    sort: Annotated[str, typer.Option(help="The column by which ports are sorted at the start.")] = "tx_bps",
    hz: Hz = 20.0,
    once: Annotated[bool, typer.Option("--once", help="Observe for a second, print the tables, and exit.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
    stream: Annotated[bool, typer.Option("--stream", hidden=True)] = False,
) -> None:
    """Watch a fabric: ports with rates, queues, pauses, marks and drops; RDMA devices; sessions. q quits.

    Arrows select a row and a column, s sorts by the column, h shows a port's history, 1 to 5 select the table.
    """
    from lab.telemetry.read.dashboard import PORTS  # noqa: PLC0415 - NumPy, for which --help does not wait
    from lab.telemetry.record.recorder import MOST_HZ  # noqa: PLC0415

    wanted = fabric or name
    if fabric and name and fabric != name:
        raise UsageError(f"{name} and {fabric} are different fabrics", "name one")
    if not 1 <= hz <= MOST_HZ:
        raise UsageError(f"--hz {hz:g} is out of range", f"choose 1 to {MOST_HZ:g}")
    columns = ["port", *(measure.name for measure in PORTS.measures)]
    if sort not in columns:
        raise UsageError(f"there is no column {sort}", f"the columns are {', '.join(columns)}")
    if stream:
        _stream(wanted, hz)
    elif once or as_json:
        _look_once(wanted, hz, sort, as_json=as_json)
    else:
        require_terminal("top")
        _watch(wanted, hz, sort)


def _stream(wanted: str | None, hz: float) -> None:
    from lab.telemetry.sample.stream_samples import write_samples  # noqa: PLC0415 - see top

    write_samples(open_fabric(wanted), hz, sys.stdout.fileno())


def _look_once(wanted: str | None, hz: float, sort: str, *, as_json: bool) -> None:
    from lab.cli.tables.dashboard_tables import as_data, show  # noqa: PLC0415 - see top

    with _sampled(wanted, hz) as (film, sampler):
        while not film.whole:
            _feed(film, sampler)
        if as_json:
            print_json(as_data(film, film.end))
        else:
            show(film, film.end, sort)


def _watch(wanted: str | None, hz: float, sort: str) -> None:
    with _sampled(wanted, hz) as (film, sampler):
        while not film.begun:
            _feed(film, sampler)
        from lab.tui.top_app import Top  # noqa: PLC0415 - Textual, needed only on a terminal

        shown = Top(film, sampler.stream.fileno(), sort)
        shown.run()
        if shown.error:
            raise shown.error
        if shown.ended:
            sampler.report_end()


def _feed(film: LiveFilm, sampler: ChildCommand) -> None:
    data = sampler.stream.recv(_CHUNK)
    if not data:
        sampler.report_end()
    film.feed(data)


@contextmanager
def _sampled(wanted: str | None, hz: float) -> Iterator[tuple[LiveFilm, ChildCommand]]:
    """Yield the timeline of a fabric, and the command that samples it."""
    from lab.telemetry.read.timeline_frames import LiveFilm  # noqa: PLC0415 - see top

    named = ["--fabric", wanted] if wanted else []
    with child_command("top", "--stream", "--hz", f"{hz:g}", *named) as sampler:
        yield LiveFilm(), sampler
