"""What ``rocelab compare`` answers."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class ComparedRunAnswer(Answer):
    """One of the two recordings, and the window of it that is compared."""

    name: str
    folder: str
    fabric: str
    scenario: str
    """Empty of a recording that no scenario made, or none that is known here."""
    outcome: Literal["pass", "fail", "unknown"] | None
    """What the scenario's checks say of the whole run; None where nothing judges it."""
    diagnosis: Literal["fault", "capacity", "healthy", "unknown"]
    """The outcome of the diagnosis of the window."""
    complete: bool
    hz: float
    """Samples in a second."""
    phase: str
    """The phase that is compared; empty of seconds, and of a whole run."""
    start: float
    """Where the window begins: seconds of the recording."""
    seconds: float
    """How long the window is."""


class ComparedCheckAnswer(Answer):
    """A check of a scenario in both runs; None where a run has no such check."""

    name: str
    a: Literal["pass", "fail", "unknown"] | None
    b: Literal["pass", "fail", "unknown"] | None
    evidence_a: str
    evidence_b: str
    changed: bool


class ComparedCauseAnswer(Answer):
    """A cause that a diagnosis names: its confidence, 0 to 1, or None in a run whose diagnosis does not name it."""

    cause: str
    title: str
    places: list[str]
    priority: int | None
    a: float | None
    b: float | None
    changed: bool


class ComparedValueAnswer(Answer):
    """A measure of a port, RDMA device, shared buffer, transfer or phase in both runs."""

    of: str
    priority: int | None
    """The priority, queue or buffer group; None of a measure that is not counted by priority."""
    measure: str
    title: str
    unit: Literal["bit/s", "B", "s", "share of the time", "packets/s", "frames/s", "events/s"]
    a: float
    """In the unit: counters per second, gauges as their highest sample."""
    b: float
    total_a: float
    """By how much the counters behind it grew in the window, in their own unit; of a gauge its highest sample."""
    total_b: float
    difference: float
    """``b - a``."""
    percent: float | None
    """The difference in percent of ``a``; None where ``a`` is 0."""
    changed: bool


class ComparedSectionAnswer(Answer):
    """One kind of thing."""

    name: Literal["transfers", "ports", "devices", "buffers", "phases"]
    changed: int
    """Of how many things in both recordings a value changed."""
    unchanged: int
    only_a: list[str]
    """Names that are in the first recording only."""
    only_b: list[str]
    values: list[ComparedValueAnswer]
    """Values that changed, the largest change first; with ``--all`` followed by those that did not."""


class ComparisonAnswer(Answer):
    """Two recordings, compared."""

    changed: bool
    """Whether anything changed."""
    threshold: float
    """The share of the larger value by which a value has to differ."""
    a: ComparedRunAnswer
    b: ComparedRunAnswer
    notes: list[str]
    """What limits the comparison, in lines."""
    checks: list[ComparedCheckAnswer]
    causes: list[ComparedCauseAnswer]
    sections: list[ComparedSectionAnswer]
    files: list[str]
    """What was written."""
