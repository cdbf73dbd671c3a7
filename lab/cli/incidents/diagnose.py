"""``rocelab diagnose``: root causes with location, confidence, evidence and fix."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.kit.complete import FabricOption, run_names
from lab.cli.kit.option_value import read_optional_seconds, read_seconds
from lab.cli.kit.output import JsonFlag, print_json, print_note, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.cli.tables.deviation_table import SPREADS, show_deviations
from lab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.backends.backend import Fabric
    from lab.diagnose.conservation.locations import Location
    from lab.diagnose.diagnosis import Diagnosis, Found
    from lab.diagnose.differing import DifferingSetting
    from lab.diagnose.symptom import Evidence
    from lab.report.baseline.learned_baseline import BaselineDeviation, LearnedBaseline
    from lab.telemetry.record.recorder import Recorder

_PLACES = 8
"""The maximum number of places in the table."""
_DIFFERING = ("node", "object", "setting", "value", "expected", "against", "seen at its place")
_MOST = 20
"""Settings that the table lists."""
_TOLD = {
    "fault": "{count}",
    "capacity": "no fault: capacity",
    "healthy": "healthy: all pairs of hosts, sessions and settings were checked",
    "unchecked": "no fault seen, not checked: {unchecked}",
    "unknown": "unknown: something is wrong, or there is too little data",
}
_INCOMPLETE = ("unknown", "unchecked")
_MORE = "rocelab diagnose --probe checks more: it sends pings and RDMA writes, probes all paths and reads settings"
_CODES = {"fault": ExitCode.FAIL, "unknown": ExitCode.UNKNOWN, "unchecked": ExitCode.UNKNOWN}


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
        str | None, typer.Option("--from", metavar="TIME", help="Start of the window in the recording.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="End of the window in the recording.")
    ] = None,
    seconds: Annotated[str, typer.Option(metavar="TIME", help="How long to observe a running fabric.")] = "10s",
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Send pings, path probes and some RDMA writes, for fabrics without traffic."),
    ] = False,
    settings: Annotated[
        bool | None,
        typer.Option(
            "--settings/--no-settings",
            help="Also read all settings of a running fabric, which takes seconds. \\[default: with --probe]",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan/--no-plan", help="Also list settings that differ from the fabric's plan.")
    ] = True,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", "-b", metavar="FILE", help="Also list values that deviate from this baseline."),
    ] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find root causes and their locations, the most likely first, each with its evidence.

    rocelab diagnose RUN reads a recording, without root; without RUN it observes a running fabric. It never reads
    which fault was injected. Exit code 0 if all is well or a link is full, 1 if something is broken. It is 3 if the
    result is unknown, or if no fault was seen but something was not checked.
    """
    since, end = read_optional_seconds("--from", begin), read_optional_seconds("--until", until)
    observed = read_seconds("--seconds", seconds)
    _check(run, phase, since, end, observed, fabric, probe=probe, settings=bool(settings))
    settings = probe if settings is None else settings
    normal = _learned(baseline)
    found, deviations = (
        _of_a_fabric(fabric, observed, normal, probe=probe, settings=settings, plan=plan)
        if run is None
        else _of_a_run(folder_of(run), phase, since, end, normal, plan=plan)
    )
    if as_json:
        print_json({**_as_data(found), "deviations": deviations})
    else:
        _show(found)
        if deviations:
            _say("")
            show_deviations("values that deviate from the baseline", deviations)
        if run is None and not probe and found.outcome.value in _INCOMPLETE:
            _say(_MORE)
    raise typer.Exit(_CODES.get(found.outcome.value, ExitCode.PASS))


def _check(
    run: str | None,
    phase: str,
    begin: float | None,
    until: float | None,
    seconds: float,
    fabric: str | None,
    *,
    probe: bool,
    settings: bool,
) -> None:
    """Raise UsageError for options that exclude each other."""
    times = begin is not None or until is not None
    if run is not None and fabric is not None:
        raise UsageError("a recording and a fabric are both named", "name one of them")
    if run is not None and probe:
        raise UsageError("--probe needs a running fabric", "omit --probe, or omit the recording")
    if run is not None and settings:
        raise UsageError("--settings needs a running fabric", "omit it: a recording that has settings shows them")
    if run is None and (phase or times):
        raise UsageError("--phase, --from and --until need a recording", "rocelab diagnose RUN --phase ...")
    if phase and times:
        raise UsageError("--phase and times are both given", "use --phase, or --from and --until")
    if not 1 <= seconds <= 3600:
        raise UsageError(f"--seconds {seconds:g} is out of range", "choose 1 to 3600")


def _learned(file: Path | None) -> LearnedBaseline | None:
    if file is None:
        return None
    from lab.report.baseline import learned_baseline  # noqa: PLC0415 - NumPy, for which --help does not wait

    return learned_baseline.load(file)


def _of_a_run(
    run: Path,
    phase: str,
    begin: float | None,
    until: float | None,
    normal: LearnedBaseline | None,
    *,
    plan: bool,
) -> tuple[Diagnosis, list[BaselineDeviation]]:
    """Return the diagnosis of a recording, and what deviates from a baseline in the same part of it."""
    from lab.diagnose.run import diagnose_run  # noqa: PLC0415 - NumPy and pyarrow, for which --help does not wait
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    recording = Recording.open(run)
    found = diagnose_run(recording, phase, begin, until, plan=plan)
    if normal is None:
        return found, []
    from lab.report.baseline.baseline_evidence import with_baseline  # noqa: PLC0415
    from lab.report.baseline.learned_baseline import compare  # noqa: PLC0415

    deviations = compare(normal, recording, SPREADS, recording.window(phase, begin, until)).deviations
    return with_baseline(found, deviations), deviations


def _of_a_fabric(
    name: str | None,
    seconds: float,
    normal: LearnedBaseline | None,
    *,
    probe: bool,
    settings: bool,
    plan: bool,
) -> tuple[Diagnosis, list[BaselineDeviation]]:
    """Return the diagnosis of a running fabric, from a temporary recording; a challenge is solved without a plan."""
    from lab.cli.kit.open_fabric import open_fabric  # noqa: PLC0415
    from lab.telemetry.record.temporary_recording import record_window  # noqa: PLC0415

    fabric = open_fabric(name)
    if probe:
        print_note(f"probing for about {_longest(fabric)} s at most, then observing for {seconds:g} s")
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        busy = partial(_probing, fabric) if probe else None
        window = record_window(fabric, Path(folder) / "window", seconds, busy, audited=settings)
        plan = plan and not fabric.state.challenge.exists()
        return _of_a_run(Path(folder) / "window", window, None, None, normal, plan=plan)


def _longest(fabric: Fabric) -> int:
    from lab.scenario.probes.probe_traffic import longest  # noqa: PLC0415 - see _of_a_run

    return longest(fabric.topology)


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
        "located": found.located,
        "differing": found.differing,
        "unchecked": found.unchecked,
    }


def _show(found: Diagnosis) -> None:
    faults = [each for each in found.causes if each.fault]
    others = [each for each in found.causes if not each.fault]
    groups = _groups(faults)
    count = "1 root cause" if len(groups) == 1 else f"{len(groups)} root causes"
    told = _TOLD[found.outcome.value].format(count=count, unchecked="; ".join(found.unchecked))
    _say(f"{found.start:.1f} to {found.end:.1f} s: {told}")
    if found.outcome.value == "capacity" and found.unchecked:
        _say(f"not checked: {'; '.join(found.unchecked)}")
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
    if found.located:
        _say("")
        _locations(found.located)
    _show_differing(found)
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


def _locations(located: tuple[Location, ...]) -> None:
    rows = [
        (each.place, each.effect.value, str(each.packets), f"{each.share:.2%}", each.evidence.says)
        for each in located[:_PLACES]
    ]  # fmt: skip
    stdout.print(table("where packets are not conserved", ("at", "effect", "packets", "share", "what"), rows))


def _show_differing(found: Diagnosis) -> None:
    if found.differing:
        _say("")
        stdout.print(table("settings that differ", _DIFFERING, list(map(_differing_row, found.differing[:_MOST]))))
    if (more := len(found.differing) - _MOST) > 0:
        _say(f"and {more} more: --json lists all")


def _differing_row(each: DifferingSetting) -> tuple[str, ...]:
    effect = ", ".join(each.touches) or "no effect seen"
    return each.node, each.object, each.setting, each.value, each.expected, each.against, effect


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
