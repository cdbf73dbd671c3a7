"""The ``--json`` answer of ``rocelab report``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lab.cli.answers.base import Answer, Models
from lab.cli.answers.diagnoses import Diagnosis
from lab.report import qp_limits, ruled_out, run_facts, run_figures, scenario_text, timeline_entry
from lab.report.job import request_tables, step_tables

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.report.job.request_tables import RequestTransfer
    from lab.report.job.step_tables import ReportedJob
    from lab.report.qp_limits import ReportedQp
    from lab.report.ruled_out import RuledOut
    from lab.report.run_facts import Moved, ReportedFault, Span
    from lab.report.run_figures import ReportFigure
    from lab.report.scenario_text import Answered, Check
    from lab.report.timeline_entry import TimelineEntry
else:
    _MODELS = Models()
    Moved, ReportedFault, Span = (
        _MODELS.of(kind) for kind in (run_facts.Moved, run_facts.ReportedFault, run_facts.Span)
    )
    Answered, Check = _MODELS.of(scenario_text.Answered), _MODELS.of(scenario_text.Check)
    ReportFigure, RuledOut = _MODELS.of(run_figures.ReportFigure), _MODELS.of(ruled_out.RuledOut)
    ReportedQp, ReportedJob = _MODELS.of(qp_limits.ReportedQp), _MODELS.of(step_tables.ReportedJob)
    RequestTransfer = _MODELS.of(request_tables.RequestTransfer)
    TimelineEntry = _MODELS.of(timeline_entry.TimelineEntry)


class ReportedPhase(Span):
    """A phase of a run; times are seconds of the recording."""


class ReportedFaultAnswer(ReportedFault):
    """An injected fault, from the ground truth in the recording."""


class TimelineAnswer(TimelineEntry):
    """A line of the timeline."""


class ReportedCheck(Check):
    """The verdict of a check on the run."""

    outcome: Literal["pass", "fail", "unknown"]


class FigureAnswer(ReportFigure):
    """A figure and its source."""


class ReportedQpAnswer(ReportedQp):
    """A QP that congestion control limited in the run."""


class ReportedJobAnswer(ReportedJob):
    """A training job of the run."""


class RequestTransferAnswer(RequestTransfer):
    """A transfer with requests (``rocelab job transfer``)."""


class ReportedTransfer(Moved):
    """A transfer of a pair of hosts, and the phase in which it began; empty before the first phase."""

    verb: Literal["write", "read", "send"]


class ReportedPacket(Answer):
    """A captured packet of interest: the first of its kind."""

    what: str
    at: float
    """Seconds of the recording."""
    link: str
    file: str
    """File in the recording's folder."""
    number: int
    """Number of the packet in that file, counted from 1."""
    line: str


class RootCause(Answered):
    """The root cause from the scenario's own description; it is not the result of a diagnosis."""


class RuledOutAnswer(RuledOut):
    """A cause that was ruled out."""


class ReportAnswer(Answer):
    """The report of a run."""

    name: str
    fabric: str
    scenario: str
    """Empty if the recording was not made by a known scenario."""
    title: str
    outcome: Literal["pass", "fail", "unknown"] | None
    """null if there are no checks."""
    complete: bool
    why: str
    """The reason if the run did not end normally; empty otherwise."""
    began: str
    """Wall-clock time in ISO 8601 format."""
    seconds: float
    phases: list[ReportedPhase]
    faults: list[ReportedFaultAnswer]
    timeline: list[TimelineAnswer]
    seen: list[str]
    """Notable observations, one per line."""
    checks: list[ReportedCheck]
    figures: list[FigureAnswer]
    transfers: list[ReportedTransfer]
    limited: list[ReportedQpAnswer]
    """QPs that congestion control limited, the one that it limited most first."""
    jobs: list[ReportedJobAnswer]
    """Training jobs, with every step of every rank."""
    requests: list[RequestTransferAnswer]
    """Transfers with every request (``rocelab job transfer``)."""
    packets: list[ReportedPacket]
    answer: RootCause | None
    """null if the scenario has no root cause."""
    diagnosis: Diagnosis | None
    """The diagnosis of a recording that no scenario made; null for others."""
    ruled_out: list[RuledOutAnswer]
    alarms: list[str]
    """Counters that would have raised an alarm, with their values."""
    unknown: list[str]
    """Facts that the recording cannot show, one per line."""
    files: list[str]
    """The files that were written."""


class UnreadRecording(Answer):
    """A recording of a folder that could not be reported."""

    recording: str
    why: str


class Reports(Answer):
    """The reports of one or more recordings."""

    reports: list[ReportAnswer]
    unread: list[UnreadRecording]
    index: str | None
    """The page that lists the reports; null without ``--index``."""
