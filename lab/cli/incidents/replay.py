"""``rocelab replay``: play a recording in the tables of ``rocelab top``, forwards and backwards."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.option_value import read_seconds
from lab.cli.kit.output import JsonFlag, print_json
from lab.cli.kit.run_name import folder_of
from lab.errors import UsageError
from lab.units import format_time

if TYPE_CHECKING:
    from lab.telemetry.read.recording import Recording


def replay(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A recording's directory, or its name in recordings/.", autocompletion=run_names
        ),
    ],
    at: Annotated[
        str, typer.Option(metavar="TIME", help="Start at this time of the recording, like 1.5 or 1500ms.")
    ] = "0s",
    speed: Annotated[
        float, typer.Option(help="Speed: seconds of the recording per second.", min=1 / 64, max=64)
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the tables of that moment, and exit.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Replay a recording in the tables of rocelab top, at any speed, forwards or backwards. Needs no root.

    Space plays and pauses, b reverses, + and - change the speed, . and , step one sample. Brackets go to phases, n
    and p to events. The options --once and --json show the moment of --at only.
    """
    from lab.cli.tables.dashboard_tables import as_data, show  # noqa: PLC0415 - NumPy, for which --help does not wait
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415
    from lab.telemetry.read.timeline_frames import RecordedFilm  # noqa: PLC0415

    recording = Recording.open(folder_of(run))
    film = RecordedFilm(recording)
    second = _within(recording, read_seconds("--at", at))
    moment = recording.clock.start + round(second * 10**9)
    if as_json:
        print_json(as_data(film, moment))
    elif once:
        show(film, moment)
    else:
        require_terminal("replay")
        from lab.tui.replay_app import Replay  # noqa: PLC0415 - Textual, needed only on a terminal

        Replay(film, at=second, speed=speed).run()


def _within(recording: Recording, second: float) -> float:
    """Return the second of a recording; UsageError if it is after its end. The end may be rounded, as it is shown."""
    given, end = format_time(second), format_time(recording.seconds)
    if second > recording.seconds and given != end:
        raise UsageError(f"--at {given} is after the end of {recording.name}", f"choose 0 to {end}")
    return min(second, recording.seconds)


def require_terminal(command: str) -> None:
    """Raise UsageError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            f"rocelab {command} needs a terminal, and standard output is not one",
            f"rocelab {command} --once, or --json",
        )
