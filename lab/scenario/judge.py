"""Judging a recording by the checks of its scenario: pure, without root, now or any time later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.errors import InvalidInput, LabError, UsageError
from lab.faults.parameters import read
from lab.scenario import library
from lab.scenario.api import named
from lab.scenario.verdict import VerdictOutcome, unknown, worst
from lab.telemetry.read.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.scenario.api import Check, Parameters, Scenario
    from lab.scenario.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """A recording's verdicts by the names of the checks, and what is said of it altogether."""

    scenario: str
    verdicts: Mapping[str, Verdict]

    @property
    def outcome(self) -> VerdictOutcome:
        """The worst of them."""
        return worst([verdict.outcome for verdict in self.verdicts.values()])


def judge(path: Path, folder: Path = library.OWN) -> Judged:
    """The verdicts on a recording that a scenario of ``folder`` has made; UsageError when none has, or not as it is.

    A recording may be anybody's: it names a scenario, and never where to find modules to run.
    """
    recording = Recording.open(path)
    asked = recording.parameters
    if "scenario" not in asked:
        raise UsageError(f"{path} was not made by a scenario", "rocelab record show lists its content")
    scenario = library.find_at(str(asked["scenario"]), str(asked.get("at", "")), recording.topology, folder)
    try:
        parameters = read(scenario.parameters, asked.get("params", {}), "params", f"scenario show {scenario.name}")
    except InvalidInput as error:
        remedy = "it was recorded by another version of the scenario: play it again"
        raise UsageError(f"{path} is not as {scenario.name} makes it: {error.problems[0]}", remedy) from error
    return Judged(scenario.name, verdicts(scenario, recording, parameters))


def verdicts(scenario: Scenario[Any], recording: Recording, parameters: Parameters) -> dict[str, Verdict]:
    """What each check says; of a run that was cut short nothing is told that it could not show."""
    return {named(check): _asked(check, recording, parameters) for check in scenario.checks}


def _asked(check: Check, recording: Recording, parameters: Parameters) -> Verdict:
    """What a recording has not got is unknown: a phase that never came, a counter that was not kept."""
    if recording.why:
        return unknown(f"the run did not end as it should: {recording.why}")
    try:
        return check(recording, parameters)
    except InvalidInput:
        raise
    except LabError as error:
        return unknown(str(error))
