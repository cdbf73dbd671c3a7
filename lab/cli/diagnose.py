"""``rocelab diagnose``: what is wrong, where, how sure that is, by which figures, and what would mend it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.output import JsonFlag, print_json, stdout, table
from lab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from lab.diagnose.answer import Diagnosis, Found
    from lab.diagnose.sign import Evidence

_TOLD = {
    "fault": "{count}",
    "capacity": "no fault: capacity",
    "healthy": "healthy: nothing is wrong that can be seen",
    "unknown": "unknown: something is wrong, or too little is known",
}


def diagnose(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A recording: its directory, or its name in recordings/.")
    ],
    phase: Annotated[str, typer.Option(help="Look at this phase alone.")] = "",
    begin: Annotated[float | None, typer.Option("--from", metavar="SECONDS", help="Look from there on.")] = None,
    until: Annotated[float | None, typer.Option("--until", metavar="SECONDS", help="Look up to there.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Name what is wrong, and where: root causes, the most likely first, with the figures that show each.

    rocelab diagnose RUN reads a recording, without root. What was injected it does not read. It ends with 0 where
    nothing is broken, with 1 where something is, with 3 where it cannot tell.
    """
    if phase and (begin is not None or until is not None):
        raise UsageError("--phase and times are both given", "name a phase, or say --from and --until")
    from lab.diagnose.run import diagnose_run  # noqa: PLC0415 - NumPy and pyarrow, for which --help does not wait
    from lab.telemetry.recording import Recording  # noqa: PLC0415

    found = diagnose_run(Recording.open(_folder(run)), phase, begin, until)
    if as_json:
        print_json(_as_data(found))
    else:
        _show(found)
    raise typer.Exit({"fault": ExitCode.FAIL, "unknown": ExitCode.UNKNOWN}.get(found.outcome.value, ExitCode.PASS))


def _folder(run: str) -> Path:
    path = Path(run)
    return path if path.is_dir() or "/" in run else Path("recordings") / run


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
    count = "1 root cause" if len(faults) == 1 else f"{len(faults)} root causes"
    _say(f"{found.start:.1f} to {found.end:.1f} s: {_TOLD[found.outcome.value].format(count=count)}")
    for number, cause in enumerate(faults, 1):
        _say("")
        _tell(f"{number}. {cause.cause}", cause)
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


def _tell(heading: str, cause: Found) -> None:
    where = ", ".join(cause.places)
    which = "" if cause.priority is None else f", priority {cause.priority}"
    sure = f" ({cause.confidence:.0%} sure)" if cause.fault else ""
    _say(f"{heading} at {where}{which}{sure}")
    _say(f"   {cause.title}. {cause.words}" if cause.fault else f"   {cause.words}")
    _evidence("evidence", cause.evidence)


def _evidence(title: str, lines: tuple[Evidence, ...]) -> None:
    rows = [(each.of, f"{each.value:g}", each.says, each.source, f"{each.at:.1f} s") for each in lines]
    stdout.print(table(title, ("at", "figure", "what", "counter or source", "by"), rows))


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
