"""What ``rocelab report`` answers."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer
from lab.cli.answers.diagnoses import Diagnosis
from lab.cli.answers.recordings import TransferAnswer


class ReportedPhase(Answer):
    """A part of a run; times are seconds of the recording."""

    name: str
    start: float
    end: float


class ReportedFaultAnswer(Answer):
    """What was injected, as the truth of the recording has it."""

    kind: str
    place: str
    parameters: dict[str, str]
    says: str
    """What the kind is; empty of one that is not known here."""
    start: float
    end: float | None
    """None where nobody healed it."""
    story: bool
    """Whether it is what the run is about; false of what was set up before the first phase."""


class TimelineAnswer(Answer):
    """A line of the time line."""

    at: float
    """Seconds of the recording."""
    what: str
    source: str
    """The file that tells of it."""


class ReportedCheck(Answer):
    """What a check says of the run."""

    name: str
    meaning: str
    outcome: Literal["pass", "fail", "unknown"]
    evidence: str


class FigureAnswer(Answer):
    """A figure, and where it comes from."""

    kind: str
    """The measure: tx_bps (bit/s), paused (share of the phase), queue_peak_bytes, marked_packets or dropped_packets.

    Of a device it is one of its counters, as out_of_seq_request.
    """
    of: str
    """A port, or an RDMA device."""
    priority: int | None
    """None of a plain link, and of a device."""
    series: str
    phase: str
    value: float


class ReportedTransfer(TransferAnswer):
    """What a pair of hosts moved, and the phase in which that began; empty where none had begun."""

    phase: str


class ReportedPacket(Answer):
    """A captured packet that is worth a look: the first of its sort."""

    what: str
    at: float
    """Seconds of the recording."""
    link: str
    file: str
    """Below the recording's folder."""
    number: int
    """In that file, from 1."""
    line: str


class RootCause(Answer):
    """What the scenario gives as the root cause; nothing here was diagnosed."""

    cause: str
    where: str
    because: str
    fix: str
    prevention: str
    level: int
    """How hard it is to find, from 1; 0 where nobody says."""


class RuledOutAnswer(Answer):
    """What it was not."""

    what: str
    because: str
    """The figure that says so."""
    source: str
    """The series and phase that it is from."""


class ReportAnswer(Answer):
    """A run, reported."""

    name: str
    fabric: str
    scenario: str
    """Empty of a recording that no scenario made, or none that is known here."""
    title: str
    outcome: Literal["pass", "fail", "unknown"] | None
    """None where nothing judges it."""
    complete: bool
    why: str
    """Why it ended otherwise than it should; empty when it did not."""
    began: str
    """By the clock on the wall, as ISO 8601 has it."""
    seconds: float
    phases: list[ReportedPhase]
    faults: list[ReportedFaultAnswer]
    timeline: list[TimelineAnswer]
    seen: list[str]
    """What stands out, in lines."""
    checks: list[ReportedCheck]
    figures: list[FigureAnswer]
    transfers: list[ReportedTransfer]
    packets: list[ReportedPacket]
    answer: RootCause | None
    """None of a recording whose scenario has none."""
    diagnosis: Diagnosis | None
    """What ``rocelab diagnose`` answers, of a recording that no scenario made; None of others."""
    ruled_out: list[RuledOutAnswer]
    alarms: list[str]
    """Counters that would have told, with their values."""
    unknown: list[str]
    """What the recording does not tell, in lines."""
    files: list[str]
    """What was written."""


class UnreadRecording(Answer):
    """A recording of a folder that could not be reported."""

    recording: str
    why: str


class Reports(Answer):
    """What was reported."""

    reports: list[ReportAnswer]
    unread: list[UnreadRecording]
    index: str | None
    """The page that lists them; None without ``--index``."""
