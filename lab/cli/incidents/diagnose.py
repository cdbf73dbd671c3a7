"""``rocelab diagnose``: root causes with location, confidence, evidence and fix."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.kit.complete import FabricOption, run_names
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.backends.backend import Fabric
    from lab.diagnose.diagnosis import Diagnosis, Found
    from lab.diagnose.symptom import Evidence
    from lab.telemetry.record.recorder import Recorder

_TOLD = {
    "fault": "{count}",
    "capacity": "no fault: capacity",
    "healthy": "healthy: no fault is visible",
    "unknown": "unknown: something is wrong, or there is too little data",
}


def diagnose(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A recording: its directory, or its name. \\[default: the running fabric]",
            autocompletion=run_names,
        ),
    ] = None,
    phase: Annotated[str, typer.Option(help="Only this phase of a recording.")] = "",
    begin: Annotated[
        float | None, typer.Option("--from", metavar="SECONDS", help="Start of the window in the recording.")
    ] = None,
    until: Annotated[
        float | None, typer.Option("--until", metavar="SECONDS", help="End of the window in the recording.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to observe a running fabric.")] = 10.0,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Send pings, path probes and some RDMA writes, for fabrics without traffic."),
    ] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find root causes and their locations, the most likely first, each with its evidence.

    rocelab diagnose RUN reads a recording, without root; without RUN it observes a running fabric. It never reads
    which fault was injected. Exit code 0 if nothing is broken, 1 if something is, 3 if it is unknown.
    """
    _check(run, phase, begin, until, seconds, fabric, probe=probe)
    found = (
        _of_a_fabric(fabric, seconds, probe=probe) if run is None else _of_a_run(folder_of(run), phase, begin, until)
    )
    if as_json:
        print_json(_as_data(found))
    else:
        _show(found)
    raise typer.Exit({"fault": ExitCode.FAIL, "unknown": ExitCode.UNKNOWN}.get(found.outcome.value, ExitCode.PASS))


def _check(
    run: str | None,
    phase: str,
    begin: float | None,
    until: float | None,
    seconds: float,
    fabric: str | None,
    *,
    probe: bool,
) -> None:
    """Raise UsageError for options that exclude each other."""
    times = begin is not None or until is not None
    if run is not None and fabric is not None:
        raise UsageError("a recording and a fabric are both named", "name one of them")
    if run is not None and probe:
        raise UsageError("--probe needs a running fabric", "omit --probe, or omit the recording")
    if run is None and (phase or times):
        raise UsageError("--phase, --from and --until need a recording", "rocelab diagnose RUN --phase ...")
    if phase and times:
        raise UsageError("--phase and times are both given", "use --phase, or --from and --until")
    if not 1 <= seconds <= 3600:
        raise UsageError(f"--seconds {seconds:g} is out of range", "choose 1 to 3600")


def _of_a_run(run: Path, phase: str, begin: float | None, until: float | None) -> Diagnosis:
    from lab.diagnose.run import diagnose_run  # noqa: PLC0415 - NumPy and pyarrow, for which --help does not wait
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    return diagnose_run(Recording.open(run), phase, begin, until)


def _of_a_fabric(name: str | None, seconds: float, *, probe: bool) -> Diagnosis:
    """Return the diagnosis of a running fabric, from a temporary recording."""
    from lab.backends.live_qos import require_ports  # noqa: PLC0415 - see _of_a_run
    from lab.cli.kit.open_fabric import open_fabric  # noqa: PLC0415
    from lab.telemetry.record.temporary_recording import record_window  # noqa: PLC0415

    fabric = open_fabric(name)
    if probe:
        require_ports(fabric)
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        busy = partial(_probing, fabric) if probe else None
        window = record_window(fabric, Path(folder) / "window", seconds, busy)
        return _of_a_run(Path(folder) / "window", window, None, None)


def _probing(fabric: Fabric, recorder: Recorder) -> AbstractContextManager[None]:
    from lab.scenario.probes.probe_traffic import probing  # noqa: PLC0415 - see _of_a_run
    from lab.scenario.stage import Stage  # noqa: PLC0415

    return probing(Stage(fabric, recorder, seed=1, tell=lambda _: None))


def _as_data(found: Diagnosis) -> dict[str, Any]:
    return {
        "outcome": found.outcome.value,
        "causes": found.causes,
        "unexplained": found.unexplained,
        "missing": found.missing,
        "start": found.start,
        "end": found.end,
    }


def _show(found: Diagnosis) -> None:
    faults = [each for each in found.causes if each.fault]
    others = [each for each in found.causes if not each.fault]
    groups = _groups(faults)
    count = "1 root cause" if len(groups) == 1 else f"{len(groups)} root causes"
    _say(f"{found.start:.1f} to {found.end:.1f} s: {_TOLD[found.outcome.value].format(count=count)}")
    for number, group in enumerate(groups, 1):
        _say("")
        if len(group) > 1:
            _say(f"{number}. one of {len(group)}, which show the same figures:")
        for letter, cause in zip("abcdefgh", group, strict=False):
            _tell(f"{number}{letter if len(group) > 1 else ''}. {cause.cause}", cause)
            if cause.rival:
                _say(f"   not {cause.rival}? {cause.tell}")
            _say(f"   fix: {cause.fix}")
    for cause in others:
        _say("")
        _tell(cause.title, cause)
    if found.unexplained:
        _say("")
        _evidence("not accounted for", found.unexplained)
    if found.missing:
        _say("")
        _say(f"not known: {'; '.join(found.missing)}")


def _groups(faults: list[Found]) -> list[list[Found]]:
    """Return the causes; alternatives are in one group: only one of them is real."""
    groups: list[list[Found]] = []
    for cause in faults:
        either = next((group for group in groups if cause.cause in group[0].alternatives), None)
        if either is None:
            groups.append([cause])
        else:
            either.append(cause)
    return groups


def _tell(heading: str, cause: Found) -> None:
    where = ", ".join(cause.places)
    which = "" if cause.priority is None else f", priority {cause.priority}"
    sure = f" ({cause.confidence:.0%} sure)" if cause.fault else ""
    _say(f"{heading} at {where}{which}{sure}")
    _say(f"   {cause.title}. {cause.words}" if cause.fault else f"   {cause.words}")
    _evidence("evidence", cause.evidence)


def _evidence(title: str, lines: tuple[Evidence, ...]) -> None:
    rows = [(each.of, each.figure, each.says, each.source, f"{max(0.0, each.at):.1f} s") for each in lines]
    stdout.print(table(title, ("at", "figure", "what", "counter or source", "by"), rows))


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
