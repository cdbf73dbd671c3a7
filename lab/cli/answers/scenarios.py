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
    places: list[str]
    """Where ``run --at`` can put the fault; the first is the default."""
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


class JudgementAnswer(Answer):
    """A recording, judged by the checks of its scenario."""

    scenario: str
    recording: str
    """Its folder."""
    outcome: Literal["pass", "fail", "unknown"]
    """The worst of its checks."""
    checks: list[CheckVerdict]


class Broken(Answer):
    """A challenge that was begun: what is wrong is not told."""

    fabric: str
    workload: str
    """Who does what meanwhile."""
    level: int
    """How hard it is, 1 to 3."""


class Hint(Answer):
    """A rung of the ladder."""

    rung: Literal["symptom", "where", "counter", "command", "what it shows"]
    text: str


class Hints(Answer):
    """The hints that were given, the last one now."""

    fabric: str
    given: list[Hint]
    left: int


class Checked(Answer):
    """What of an answer is right."""

    verdict: Literal["right", "right cause, wrong place", "wrong"]
    told: str
    """What contradicts it, where it is not."""


class Score(Answer):
    """How somebody did in a challenge."""

    scenario: str
    when: float
    """It was begun, in seconds since 1970."""
    seconds: float
    """To the right answer, or until it was given up."""
    hints: int
    wrong: int
    """Answers that were not right."""
    solved: bool


class Fixed(Answer):
    """A challenge that was mended, and the checks of its scenario that verify it."""

    fabric: str
    fix: str
    verified: JudgementAnswer
    score: Score


class ExplanationAnswer(Answer):
    """All that is to be said of a challenge."""

    scenario: str
    title: str
    cause: str
    where: list[str]
    because: str
    fix: str
    prevention: str
    hints: list[Hint]
    text: str
    """Story, figure and numbers."""
    score: Score
