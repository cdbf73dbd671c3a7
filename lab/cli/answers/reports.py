"""The ``--json`` answer of ``rocelab report``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer
from lab.cli.answers.diagnoses import Diagnosis
from lab.cli.answers.recordings import TransferAnswer


class ReportedPhase(Answer):
    """A phase of a run; times are seconds of the recording."""

    name: str
    start: float
    end: float


class ReportedFaultAnswer(Answer):
    """An injected fault, from the ground truth in the recording."""

    kind: str
    place: str
    parameters: dict[str, str]
    says: str
    """Description of the kind; empty if the kind is unknown."""
    start: float
    end: float | None
    """null if the fault was not healed."""
    story: bool
    """Whether it is the fault of the run; false for faults set up before the first phase."""


class TimelineAnswer(Answer):
    """A line of the timeline."""

    at: float
    """Seconds of the recording."""
    what: str
    source: str
    """The file that contains the event."""


class ReportedCheck(Answer):
    """The verdict of a check on the run."""

    name: str
    meaning: str
    outcome: Literal["pass", "fail", "unknown"]
    evidence: str


class FigureAnswer(Answer):
    """A figure and its source."""

    kind: str
    """The measure: tx_bps (bit/s), paused (share of the phase), queue_peak_bytes, marked_packets or dropped_packets.

    For an RDMA device, one of its counters, for example out_of_seq_request.
    """
    of: str
    """A port or an RDMA device."""
    priority: int | None
    """null for plain links and RDMA devices."""
    series: str
    phase: str
    value: float


class ReportedTransfer(TransferAnswer):
    """A transfer of a pair of hosts, and the phase in which it began; empty before the first phase."""

    phase: str


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


class RootCause(Answer):
    """The root cause from the scenario's own description; it is not the result of a diagnosis."""

    cause: str
    where: str
    because: str
    fix: str
    prevention: str
    level: int
    """Difficulty, from 1; 0 if it is not given."""


class RuledOutAnswer(Answer):
    """A cause that was ruled out."""

    what: str
    because: str
    """The figure that rules it out."""
    source: str
    """The series and phase of that figure."""


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
