"""Verdicts on recordings as a table, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lab.cli.kit.output import stderr, stdout, table
from lab.errors import ExitCode
from lab.kernel.process import wall_clock
from lab.scenario.verdict import VerdictOutcome, worst

if TYPE_CHECKING:
    from pathlib import Path

    from lab.scenario.judge import Judged

_CODES: Final = {
    VerdictOutcome.PASS: ExitCode.PASS,
    VerdictOutcome.FAIL: ExitCode.FAIL,
    VerdictOutcome.UNKNOWN: ExitCode.UNKNOWN,
}


def fresh(output: Path, name: str) -> Path:
    """Return an unused folder for the recording of a scenario, named after it and the time."""
    stamp = wall_clock.stamp()
    folder, number = output / f"{name}-{stamp}", 2
    while folder.exists():
        folder, number = output / f"{name}-{stamp}-{number}", number + 1
    return folder


def tell(line: str) -> None:
    """Print a line on standard error."""
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)


def show(run: Path, judged: Judged) -> None:
    """Print the verdicts of a recording's checks as a table."""
    drawn = table(f"{judged.scenario}: {judged.outcome}", ("check", "verdict", "evidence"), [
        (name, verdict.outcome.value, verdict.evidence) for name, verdict in judged.verdicts.items()
    ])  # fmt: skip
    stdout.print(drawn)
    tell(f"recorded in {run}; rocelab scenario judge {run} judges it again")


def facts(run: Path, judged: Judged) -> dict[str, Any]:
    """Return the verdicts for JSON."""
    return {
        "scenario": judged.scenario,
        "recording": str(run),
        "outcome": judged.outcome.value,
        "checks": [
            {"name": name, "outcome": verdict.outcome.value, "evidence": verdict.evidence}
            for name, verdict in judged.verdicts.items()
        ],
    }


def end(judged: list[Judged]) -> None:
    """Exit with 0 if every check passes, 1 if one fails, 3 if the outcome of one is unknown."""
    code = _CODES[worst([each.outcome for each in judged])]
    if code:
        raise typer.Exit(code)
