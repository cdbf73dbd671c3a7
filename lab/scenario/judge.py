"""Judging a recording by the checks of its scenario: pure, without root, at any time."""

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
    """The verdicts on a recording, by the names of the checks, and their overall outcome."""

    scenario: str
    verdicts: Mapping[str, Verdict]

    @property
    def outcome(self) -> VerdictOutcome:
        """The worst outcome of all verdicts."""
        return worst([verdict.outcome for verdict in self.verdicts.values()])


def judge(path: Path, folder: Path = library.OWN) -> Judged:
    """Return the verdicts on a recording that was made by a scenario of ``folder``.

    Raises UsageError if no scenario made it, or another version of the scenario did. The recording is untrusted: it
    names a scenario, but never the folder from which modules are loaded.
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
    """Return the verdict of each check. All are unknown if the run was cut short."""
    return {named(check): _asked(check, recording, parameters) for check in scenario.checks}


def _asked(check: Check, recording: Recording, parameters: Parameters) -> Verdict:
    """Return a check's verdict; unknown if the recording lacks what it needs, for example a phase or a counter."""
    if recording.why:
        return unknown(f"the run did not end as it should: {recording.why}")
    try:
        return check(recording, parameters)
    except InvalidInput:
        raise
    except LabError as error:
        return unknown(str(error))
