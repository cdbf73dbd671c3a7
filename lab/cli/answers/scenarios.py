"""What ``rocelab scenario`` answers."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class ListedScenario(Answer):
    """A scenario of a folder."""

    name: str
    title: str
    topology: str
    """The file of its fabric."""


class ListedExample(Answer):
    """A topology or a scenario that comes with rocelab."""

    name: str
    about: str
    """Its first sentence."""


class Explained(Answer):
    """A check, and what is true of a recording that passes it."""

    name: str
    meaning: str


class ScenarioParameter(Explained):
    """A parameter of a scenario."""

    default: str | None
    """None for one that must be given."""


class ScenarioShow(Answer):
    """A scenario in full."""

    name: str
    topology: str
    text: str
    """Story, figure and numbers."""
    parameters: list[ScenarioParameter]
    checks: list[Explained]


class CheckVerdict(Answer):
    """What a check says of a recording."""

    name: str
    outcome: Literal["pass", "fail", "unknown"]
    evidence: str
    """The figures that show it."""


class Judgement(Answer):
    """A recording, judged by the checks of its scenario."""

    scenario: str
    recording: str
    """Its folder."""
    outcome: Literal["pass", "fail", "unknown"]
    """The worst of its checks."""
    checks: list[CheckVerdict]
