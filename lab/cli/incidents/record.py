"""``rocelab record``: record a fabric into a directory."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.backends import recorders
from lab.backends.fabric_state import all_fabrics, find_fabric
from lab.cli.kit.complete import FabricOption, run_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, complete, print_json, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.errors import InvalidInput, OperationFailed, UsageError
from lab.kernel.process import time_source, wall_clock
from lab.model.values.suggest import suggest
from lab.units import counted, format_rate, format_size, format_time
from lab.vm.calls.handover import to_stay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.fabric_state import FabricState
    from lab.telemetry.read.recording import Recording

app = typer.Typer(no_args_is_help=True, help="Record a fabric, and show recordings.")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BUSIEST: Final = 8
_TRANSFER: Final = ("pair", "verb", "from", "took", "payload", "goodput", "a message: median, at most")

Where = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="Directory of the recordings; each has its own subdirectory."),
]
Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Name of the recording. \\[default: fabric and time]")
]


@app.command()
def start(
    name: Name = None,
    output: Where = Path("recordings"),
    hz: Annotated[float, typer.Option(help="Samples of all counters per second.")] = 20.0,
    capture: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK", help="Also capture packets here; places are those of rocelab capture. May be repeated."
        ),
    ] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Record a fabric in the background, until rocelab record stop, or rocelab down.

    Example: rocelab record start incast --capture h1..h4; run the traffic; rocelab record stop.
    """
    from lab.telemetry.record import background_recorder  # noqa: PLC0415 - NumPy, for which ls does not wait

    running = open_fabric(fabric)
    chosen = name or f"{running.name}-{wall_clock.stamp()}"
    if not _NAME.fullmatch(chosen):
        raise UsageError(f"a recording cannot have the name {chosen!r}", "use letters, digits, dots and dashes")
    folder = to_stay(output) / chosen
    with background_recorder.recording(folder, running, hz=hz, captures=capture or ()):
        if as_json:
            print_json({"name": chosen, "fabric": running.name, "folder": str(folder), "hz": hz})
        else:
            _say(f"recording {running.name} into {folder}; rocelab record stop ends it")
        complete()


@app.command()
def stop(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The recording, if several run.")] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Stop a recording and print its summary."""
    found = _chosen(name, fabric)
    recorders.stop(found)
    for state in _states():
        recorders.failure(state, found.name)  # reported below
    recording = _opened(found.folder)
    if as_json:
        print_json(_as_data(recording))
    else:
        _show(recording)
    if recording.incomplete:
        raise OperationFailed(
            f"recording {found.folder} is incomplete: {recording.why}", "everything before that can be read"
        )


@app.command()
def shell(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The recording, if several run.")] = None,
    fabric: FabricOption = None,
) -> None:
    """Open a shell whose terminal is recorded; exit closes it.

    The file is terminal/shell-1.cast, with the times of the recording; asciinema play shows it.
    """
    from lab.telemetry.record.recorded_shell import record_terminal  # noqa: PLC0415 - pexpect, needed only here
    from lab.telemetry.store.recording_folder import Folder  # noqa: PLC0415 - as in ls

    found = _chosen(name, fabric)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("standard input is not a terminal", "run rocelab record shell in one, without pipes")
    code, file = record_terminal(Folder(found.folder), [os.environ.get("SHELL", "/bin/sh")], os.environ)
    _say(f"kept in {file}")
    raise typer.Exit(code)


@app.command("ls")
def list_recordings(output: Where = Path("recordings"), as_json: JsonFlag = False) -> None:
    """List the recordings of a directory, including those in progress.

    The state is recording, complete, interrupted by an error or a signal, incomplete because its recorder was killed,
    or damaged, with why.
    """
    if output.is_file():
        raise UsageError(f"{output} is a file", "name a folder of recordings with -o")
    found = [_listed(folder) for folder in sorted(output.glob("*")) if (folder / "recording.json").exists()]
    known = {entry["folder"] for entry in found}
    found += [entry for entry in map(_listed, _running()) if entry["folder"] not in known]
    if as_json:
        print_json(found)
        return
    rows = [
        (entry["name"], entry["fabric"], entry["state"], _seconds(entry["seconds"]), entry["folder"], entry["why"])
        for entry in found
    ]
    stdout.print(table("recordings", ("name", "fabric", "state", "length", "folder", "why"), rows))


@app.command()
def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A recording's directory, or its name in recordings/.", autocompletion=run_names
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Show what is in a recording: phases, samples and how late they were, busiest ports, events."""
    recording = _opened(folder_of(run))
    if as_json:
        print_json(_as_data(recording))
    else:
        _show(recording)


def _opened(folder: Path) -> Recording:
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415 - NumPy and pyarrow

    return Recording.open(folder)


def _states() -> list[FabricState]:
    return [state for state in all_fabrics() if state.exists()]


def _running() -> dict[Path, recorders.RunningRecorder]:
    return {each.folder: each for state in _states() for each in recorders.running(state)}


def _chosen(name: str | None, fabric: str | None) -> recorders.RunningRecorder:
    """Return the selected recorder; UsageError lists the running ones, OperationFailed says why it ended early."""
    if fabric is not None:
        find_fabric(fabric)
    found = {
        each.name: each
        for state in _states()
        if fabric in {None, state.name}
        for each in recorders.running(state)
        if name in {None, each.name}
    }
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UsageError(f"{len(found)} recordings are in progress", f"name one: {', '.join(found)}")
    for state in _states():
        if fabric in {None, state.name} and (ended := recorders.failure(state, name)) is not None:
            raise ended
    running = [each.name for each in _running().values()]
    what = "nothing is being recorded" if name is None or not running else f"no recording {name} is being made"
    raise UsageError(what, suggest(name or "", running, ", ".join(running) or "rocelab record start"))


def _listed(folder: Path) -> dict[str, Any]:
    from lab.telemetry.store.recording_folder import Folder, read_about  # noqa: PLC0415 - needed only to list

    about: Mapping[str, Any] = {}
    runs, damage = folder.resolve() in _running(), ""
    try:
        about = read_about(Folder(folder))
    except UsageError as error:
        damage = error.problems[0].message if isinstance(error, InvalidInput) else error.message
    state = "damaged" if damage and not runs else _state(about, runs=runs)
    return {
        "name": folder.name, "fabric": about.get("fabric", ""), "state": state,
        "seconds": about.get("seconds"), "folder": str(folder.resolve()), "why": damage or about.get("why") or "",
    }  # fmt: skip


def _state(about: Mapping[str, Any], *, runs: bool) -> str:
    """Return the state of a recording; a complete one that did not end normally is ``interrupted``."""
    if about.get("complete"):
        return "interrupted" if about.get("why") else "complete"
    return "recording" if runs else "incomplete"


def _as_data(recording: Recording) -> dict[str, Any]:
    from lab.telemetry.read.recording_summary import summarise  # noqa: PLC0415 - see _opened

    summary, began = summarise(recording, _BUSIEST), recording.clock.start
    return {
        "name": recording.name,
        "fabric": recording.fabric,
        "folder": str(recording.folder.path.resolve()),
        "complete": not recording.incomplete,
        "why": recording.why,
        "began": summary.began.isoformat(),
        "seconds": summary.seconds,
        "hz": recording.hz,
        "samples": summary.samples,
        "skipped": recording.skipped,
        "late_mean": summary.late_mean,
        "late_max": summary.late_max,
        "phases": [
            {"name": phase.name, "start": (phase.start - began) / 1e9, "seconds": phase.seconds}
            for phase in summary.phases
        ],
        "busiest": [{"port": each.port, "rx_bps": each.rx_bps, "tx_bps": each.tx_bps} for each in summary.busiest],
        "events": summary.events,
        "transfers": [
            {
                "pair": each.pair,
                "verb": each.verb,
                "start": (each.ns - began) / 1e9,
                "seconds": each.seconds,
                "bytes": each.bytes,
                "messages": each.messages,
                "goodput_bps": each.goodput_bps,
                "message_median": each.message_median,
                "message_max": each.message_max,
            }
            for each in recording.transfers()
        ],
        "commands": len(recording.commands),
        "captures": [str(file.relative_to(recording.folder.path)) for file in recording.captures],
        "terminals": [str(file.relative_to(recording.folder.path)) for file in recording.terminals],
    }


def _show(recording: Recording) -> None:
    told = _as_data(recording)
    late = f"late by {format_time(told['late_mean'])} on average, {format_time(told['late_max'])} at most"
    skipped = "" if not told["skipped"] else f", {told['skipped']} left out"
    length = f"{_seconds(told['seconds'])}{time_source.of_time(recording.time)}"
    _say(f"{told['name']} of fabric {told['fabric']}, {told['began']}: {length}")
    _say(f"{counted(told['samples'], 'sample')} at {told['hz']:g} Hz, {late}{skipped}")
    if recording.incomplete and recording.folder.path.resolve() in _running():
        _say("so far: rocelab record stop ends it")
    elif told["why"]:
        _say(f"{'interrupted' if told['complete'] else 'incomplete'}: {told['why']}")
    if told["phases"]:
        phases = [(each["name"], _seconds(each["start"]), _seconds(each["seconds"])) for each in told["phases"]]
        stdout.print(table("phases", ("phase", "from", "length"), phases))
    if told["busiest"]:
        from lab.telemetry.read import measures  # noqa: PLC0415 - NumPy, for which --help does not wait

        rates = [(each["port"], _rate(each["rx_bps"]), _rate(each["tx_bps"])) for each in told["busiest"]]
        stdout.print(table("busiest ports", ("port", measures.RX_RATE.title, measures.TX_RATE.title), rates))
    if told["transfers"]:
        stdout.print(table("transfers", _TRANSFER, [_transfer(each) for each in told["transfers"]]))
    if told["events"]:
        stdout.print(table("events", ("source and kind", "count"), sorted(told["events"].items())))
    kept = [counted(len(told[what]), what.removesuffix("s")) for what in ("captures", "terminals")]
    _say(", ".join([counted(told["commands"], "command"), *kept]))


def _transfer(told: dict[str, Any]) -> tuple[str, ...]:
    each = (told["message_median"], told["message_max"])
    return (
        told["pair"], told["verb"], _seconds(told["start"]), format_time(told["seconds"]), format_size(told["bytes"]),
        _rate(told["goodput_bps"]), ", ".join(format_time(value) for value in each if value is not None),
    )  # fmt: skip


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _rate(value: float) -> str:
    return format_rate(round(value))


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
