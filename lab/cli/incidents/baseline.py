"""``rocelab baseline``: learn what is normal from recordings, and list what is not in another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, print_note, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.cli.tables.deviation_table import MOST_ROWS, SPREADS, note_rest, show_deviations, with_unit
from lab.errors import ExitCode, UsageError
from lab.units import counted, parse_time

if TYPE_CHECKING:
    from lab.report.baseline.learned_baseline import LearnedBaseline, NormalRange
    from lab.telemetry.read.recording import Recording

app = typer.Typer(no_args_is_help=True, help="Learn normal values from recordings, and list deviations from them.")

_DEFAULT: Final = Path("baseline.json")
_SHORTEST: Final = 0.05
_RANGES: Final = ("of", "priority", "measure", "normal", "spread")

PhaseOption = Annotated[str, typer.Option(help="Only this phase of each recording.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A baseline.")]


@app.command()
def learn(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Recordings: directories, or names.", autocompletion=run_names),
    ],
    every: Annotated[str, typer.Option(help="Length of the windows whose values are compared.")] = "1s",
    phase: PhaseOption = "",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The baseline to write.")] = _DEFAULT,
    as_json: JsonFlag = False,
) -> None:
    """Learn normal values of ports, links, RDMA devices, buffers, jobs and queue pairs from recordings of one fabric.

    With three recordings or more, one bad recording changes little.
    """
    from lab.report.baseline import learned_baseline  # noqa: PLC0415 - NumPy, for which --help does not wait

    seconds = read_value("--every", every, parse_time)
    if seconds < _SHORTEST:
        raise UsageError(f"--every {every} is too short", "choose 50ms or more")
    recordings = [_opened(run) for run in runs]
    found = learned_baseline.learn(recordings, seconds, phase)
    learned_baseline.save(found, output)
    if as_json:
        print_json(found)
    else:
        learned = f"{counted(len(found.ranges), 'value')} from {counted(len(found.runs), 'recording')}"
        stdout.print(f"{output}: {learned}", markup=False, highlight=False, soft_wrap=True)
    for recording in () if phase else recordings:
        if injected := sorted({str(fault["kind"]) for fault in recording.truth()}):
            print_note(
                f"{recording.name} has injected faults, {', '.join(injected)}: --phase learns from a part of it"
            )


@app.command()
def show(
    file: FileArgument = _DEFAULT,
    of: Annotated[
        list[str] | None,
        typer.Option("--of", metavar="PLACE", help="Only this port, device, node, job or queue pair; repeatable."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the normal values of a baseline. Values that are always 0 are left out."""
    from lab.report.baseline import learned_baseline  # noqa: PLC0415 - as above

    found = learned_baseline.load(file)
    for name in of or ():
        if name not in found.objects:
            raise UsageError(f"the baseline has no {name}", "rocelab baseline show lists what it has")
    chosen = [each for each in found.ranges if not of or each.of in of]
    if as_json:
        print_json(_with_ranges(found, chosen))
        return
    rows = [
        (each.of, each.priority, each.measure, with_unit(each.normal, each.unit), with_unit(each.spread, each.unit))
        for each in chosen[:MOST_ROWS]
    ]
    stdout.print(table(f"normal values of {found.fabric}", _RANGES, rows))
    note_rest(len(chosen))


@app.command()
def check(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A recording: its directory, or its name.", autocompletion=run_names)
    ],
    baseline: Annotated[
        Path, typer.Option("--baseline", "-b", metavar="FILE", help="The baseline to compare with.")
    ] = _DEFAULT,
    phase: PhaseOption = "",
    limit: Annotated[
        float, typer.Option("--limit", min=1, max=1e6, help="Deviations from the normal value, in spreads.")
    ] = SPREADS,
    as_json: JsonFlag = False,
) -> None:
    """List the values of a recording that deviate from a baseline, the largest deviation first.

    Exit code 0 if none does, 1 if one does.
    """
    from lab.report.baseline import learned_baseline  # noqa: PLC0415 - as above

    known, recording = learned_baseline.load(baseline), _opened(run)
    found = learned_baseline.compare(known, recording, limit, recording.window(phase))
    if as_json:
        print_json(
            {
                "run": recording.name,
                "baseline": str(baseline),
                "limit": limit,
                "deviations": found.deviations,
                "unknown": found.unknown,
            }
        )
    else:
        if found.deviations:
            show_deviations(f"deviations of {recording.name}", found.deviations)
        else:
            stdout.print(f"{recording.name}: no value deviates from the baseline", markup=False, highlight=False)
        if found.unknown:
            print_note(f"not in the baseline: {', '.join(found.unknown)}")
    if found.deviations:
        raise typer.Exit(ExitCode.FAIL)


def _opened(run: str) -> Recording:
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415 - as above

    return Recording.open(folder_of(run))


def _with_ranges(found: LearnedBaseline, ranges: list[NormalRange]) -> LearnedBaseline:
    from dataclasses import replace  # noqa: PLC0415 - only for JSON

    return replace(found, ranges=ranges)
