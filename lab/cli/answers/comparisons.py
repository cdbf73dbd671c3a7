"""The ``--json`` answer of ``rocelab compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lab.cli.answers.base import Answer, Models
from lab.report.compare import comparison

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.report.compare.comparison import ComparedCause, ComparedCheck
else:
    _MODELS = Models()
    ComparedCause, ComparedCheck = _MODELS.of(comparison.ComparedCause), _MODELS.of(comparison.ComparedCheck)


class ComparedRunAnswer(Answer):
    """One of the two recordings, and its window that is compared."""

    name: str
    folder: str
    fabric: str
    scenario: str
    """Empty if the recording was not made by a known scenario."""
    outcome: Literal["pass", "fail", "unknown"] | None
    """Verdict of the scenario's checks on the whole run; null without checks."""
    diagnosis: Literal["fault", "capacity", "healthy", "unknown", "unchecked"]
    """The outcome of the diagnosis of the window."""
    complete: bool
    hz: float
    """Samples per second."""
    phase: str
    """The compared phase; empty for a whole run, or a window given in seconds."""
    start: float
    """Start of the window in seconds of the recording."""
    seconds: float
    """Length of the window."""


class ComparedCheckAnswer(ComparedCheck):
    """A check of a scenario in both runs; null for a run that does not have the check."""

    a: Literal["pass", "fail", "unknown"] | None
    b: Literal["pass", "fail", "unknown"] | None
    changed: bool


class ComparedCauseAnswer(ComparedCause):
    """A cause in a diagnosis, with its confidence in each run, 0 to 1; null if that run's diagnosis lacks it."""

    changed: bool


class ComparedValueAnswer(Answer):
    """A measure of a port, RDMA device, shared buffer, transfer or phase in both runs."""

    of: str
    priority: int | None
    """The priority, queue or buffer group; null for a measure that has none."""
    measure: str
    title: str
    unit: Literal["bit/s", "B", "s", "share of the time", "packets/s", "frames/s", "events/s"]
    a: float
    """The value in ``unit``: counters per second, gauges as their highest sample."""
    b: float
    total_a: float
    """Growth of the counters in the window, in their own unit; for a gauge, its highest sample."""
    total_b: float
    difference: float
    """``b - a``."""
    percent: float | None
    """The difference in percent of ``a``; null if ``a`` is 0."""
    changed: bool


class ComparedSectionAnswer(Answer):
    """The compared values of one kind of object."""

    name: Literal["jobs", "requests", "transfers", "queue_pairs", "ports", "devices", "buffers", "phases"]
    changed: int
    """Number of objects in both recordings with a changed value."""
    unchanged: int
    only_a: list[str]
    """Names that occur only in the first recording."""
    only_b: list[str]
    values: list[ComparedValueAnswer]
    """Changed values, the largest change first; with ``--all``, unchanged values follow."""


class ComparisonAnswer(Answer):
    """The comparison of two recordings."""

    changed: bool
    """Whether anything changed."""
    threshold: float
    """The smallest change that counts, as a share of the larger value."""
    a: ComparedRunAnswer
    b: ComparedRunAnswer
    notes: list[str]
    """Limits of the comparison, one per line."""
    checks: list[ComparedCheckAnswer]
    causes: list[ComparedCauseAnswer]
    sections: list[ComparedSectionAnswer]
    files: list[str]
    """The files that were written."""
