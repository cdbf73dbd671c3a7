"""The story and verdict of a recording's scenario, for reports: ``lab.report`` loads no scenarios itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, LabError, UsageError
from lab.faults.catalogue import KINDS
from lab.report.scenario_text import Answered, Check, ScenarioText
from lab.scenario import library
from lab.scenario.api import named
from lab.scenario.judge import judge
from lab.telemetry.read.recording import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from lab.scenario.api import Scenario

_KINDS: Final = {name: kind.summary() for name, kind in KINDS.items()}


def told_of(run: Path, folder: Path) -> ScenarioText:
    """Return the story of a run and its checks' verdicts, or why it cannot be judged; InvalidInput if damaged."""
    recording = Recording.open(run)
    asked = recording.parameters
    if "scenario" not in asked:
        return ScenarioText(kinds=_KINDS, why="no scenario made this recording")
    try:
        scenario = library.find_at(str(asked["scenario"]), str(asked.get("at", "")), recording.topology, folder)
    except UsageError as error:
        return ScenarioText(
            kinds=_KINDS, why=f"{error.message}, by which it could be judged: --path names its folder"
        )
    meanings = {named(check): (check.__doc__ or "").partition("\n")[0] for check in scenario.checks}
    try:
        judged = judge(run, folder)
    except InvalidInput:
        raise
    except LabError as error:
        return ScenarioText(scenario.name, scenario.text, kinds=_KINDS, why=error.message, answer=_answer(scenario))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = f"it is not as {scenario.name} makes it: {type(error).__name__}"
        return ScenarioText(scenario.name, scenario.text, kinds=_KINDS, why=why, answer=_answer(scenario))
    checks = tuple(
        Check(name=name, meaning=meanings[name], outcome=verdict.outcome.value, evidence=verdict.evidence)
        for name, verdict in judged.verdicts.items()
    )
    return ScenarioText(
        scenario=scenario.name,
        text=scenario.text,
        outcome=judged.outcome.value,
        checks=checks,
        kinds=_KINDS,
        answer=_answer(scenario),
    )


def _answer(scenario: Scenario[Any]) -> Answered | None:
    found = scenario.answer
    if found is None:
        return None
    return Answered(
        cause=found.cause,
        where=found.where[0],
        because=found.because,
        fix=found.fix,
        prevention=found.prevention,
        level=found.level,
    )
