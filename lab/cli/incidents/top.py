"""``rocelab top``: live tables of a fabric. They are drawn here, from samples that are taken where the fabric runs.

Drawing in the VM would take CPU time from the fabric, so only the recorder's sampler runs there and streams its log.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from lab.cli.command_line import global_options
from lab.cli.incidents.replay import require_terminal
from lab.cli.kit.complete import FabricOption, fabric_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, print_json
from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.process import Process
    from lab.telemetry.read.timeline_frames import LiveFilm

_CHUNK: Final = 1 << 16
_GRACE: Final = 10.0
"""Seconds for a sampler to end; in the VM, it is not a child of this process."""
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

    Arrows select a row and a column, s sorts by the column, h shows a port's history, 1 to 3 select the table.
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

    with _sampled(wanted, hz) as (film, source, end):
        while not film.whole:
            _feed(film, source, end)
        if as_json:
            print_json(as_data(film, film.end))
        else:
            show(film, film.end, sort)


def _watch(wanted: str | None, hz: float, sort: str) -> None:
    with _sampled(wanted, hz) as (film, source, end):
        while not film.begun:
            _feed(film, source, end)
        from lab.tui.top_app import Top  # noqa: PLC0415 - Textual, needed only on a terminal

        shown = Top(film, source, sort)
        shown.run()
        if shown.error:
            raise shown.error
        if shown.ended:
            end.why()


class _End:
    """The unexpected end of a sampler; its error output and exit code become those of this command."""

    def __init__(self, sampler: Process, said: IO[bytes]) -> None:
        self._sampler, self._said = sampler, said

    def why(self) -> None:
        """Print the sampler's error output, and exit with its exit code."""
        code = process.wait(self._sampler, _GRACE)
        self._said.seek(0)
        sys.stderr.write(self._said.read().decode(errors="replace"))
        if not code:
            raise OperationFailed("the fabric's samples ended", "rocelab ls lists running fabrics")
        sys.exit(code)


def _feed(film: LiveFilm, source: int, end: _End) -> None:
    data = os.read(source, _CHUNK)
    if not data:
        end.why()
    film.feed(data)


@contextmanager
def _sampled(wanted: str | None, hz: float) -> Iterator[tuple[LiveFilm, int, _End]]:
    """Yield the timeline of a fabric, the descriptor of its samples, and the sampler's end; then stop the sampler."""
    from lab.telemetry.read.timeline_frames import LiveFilm  # noqa: PLC0415 - see top

    named = ["--fabric", wanted] if wanted else []
    argv = [sys.executable, "-m", "lab", *global_options(), "top", "--stream", "--hz", f"{hz:g}", *named]
    source, theirs = os.pipe()
    with tempfile.TemporaryFile() as said:
        try:
            with process.ended(lambda: process.start(argv, stdout=theirs, stderr=said.fileno())) as sampler:
                os.close(theirs)
                try:
                    yield LiveFilm(), source, _End(sampler, said)
                finally:
                    process.stop(sampler, _GRACE)
        finally:
            os.close(source)
