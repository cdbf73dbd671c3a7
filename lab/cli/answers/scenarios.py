"""The ``--json`` answers of ``rocelab scenario``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class ListedScenario(Answer):
    """A scenario in a folder."""

    name: str
    title: str
    topology: str
    """The topology file of its fabric."""


class ListedExample(Answer):
    """A topology or a scenario that comes with rocelab."""

    name: str
    about: str
    """The first sentence of its description."""


class Explained(Answer):
    """A check, and the condition that a passing recording meets."""

    name: str
    meaning: str


class ScenarioParameter(Explained):
    """A parameter of a scenario."""

    default: str | None
    """null if the parameter is required."""


class ScenarioShow(Answer):
    """A scenario in full."""

    name: str
    topology: str
    places: list[str]
    """Places for the fault with ``run --at``; the first is the default."""
    text: str
    """Story, figure and numbers of the scenario."""
    parameters: list[ScenarioParameter]
    checks: list[Explained]


class CheckVerdict(Answer):
    """The verdict of a check on a recording."""

    name: str
    outcome: Literal["pass", "fail", "unknown"]
    evidence: str
    """The figures behind the verdict."""


class JudgementAnswer(Answer):
    """A recording with the verdicts of its scenario's checks."""

    scenario: str
    recording: str
    """The folder of the recording."""
    outcome: Literal["pass", "fail", "unknown"]
    """The worst outcome of its checks."""
    checks: list[CheckVerdict]


class Broken(Answer):
    """A challenge that has begun; the fault stays hidden."""

    fabric: str
    workload: str
    """The traffic that runs meanwhile."""
    level: int
    """Difficulty, 1 to 3."""


class Hint(Answer):
    """One of the hints, which become more specific."""

    rung: Literal["symptom", "where", "counter", "command", "what it shows"]
    text: str


class Hints(Answer):
    """All hints shown so far; the newest is last."""

    fabric: str
    given: list[Hint]
    left: int


class Checked(Answer):
    """The verdict on a proposed answer to a challenge."""

    verdict: Literal["right", "right cause, wrong place", "wrong"]
    told: str
    """Evidence against the answer; empty if it is right."""


class ChallengeAnswer(Answer):
    """An answer to a challenge."""

    cause: str
    place: str


class ChallengeFigures(Answer):
    """How a challenge went."""

    scenario: str
    when: float
    """Start of the challenge, in seconds since 1970."""
    seconds: float
    """Time until the right answer, or until the user gave up."""
    hints: int
    wrong: int
    """Number of wrong answers."""
    solved: bool


class Score(ChallengeFigures):
    """The score of a challenge."""

    answer: ChallengeAnswer | None = None
    """The right answer, with its most precise place; null in scores of older versions."""
    guess: ChallengeAnswer | None = None
    """The user's last answer; null if there was none."""


class RootCauseLabel(Answer):
    """A root cause, as NIKA labels it."""

    resource_id: str
    """A node, a port or a link."""
    fault_type: str


class IncidentLabels(Answer):
    """The labels of an incident in NIKA, a benchmark of agents that troubleshoot networks."""

    is_anomaly: bool
    """false if there is no fault, but only too much traffic."""
    root_causes: list[RootCauseLabel]


class LabelledScore(ChallengeFigures):
    """The score of a challenge with the labels of NIKA."""

    ground_truth: IncidentLabels
    """The fault, at its most precise place."""
    submission: IncidentLabels | None
    """The user's last answer; null if there was none. Its place may be another one that is right, too."""


class Fixed(Answer):
    """A challenge whose fault was healed, and the checks of its scenario that verify it."""

    fabric: str
    fix: str
    verified: JudgementAnswer
    score: Score


class ExplanationAnswer(Answer):
    """The full explanation of a challenge."""

    scenario: str
    title: str
    cause: str
    where: list[str]
    because: str
    fix: str
    prevention: str
    hints: list[Hint]
    text: str
    """Story, figure and numbers of the scenario."""
    score: Score
