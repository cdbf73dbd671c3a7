"""One of the two recordings of a comparison: its window, its scenario's verdict, and its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.diagnose.run import diagnose_run
from lab.report.compare.figures_in_window import WindowCounters
from lab.telemetry.store.recording_folder import damage_as_invalid, invalid

if TYPE_CHECKING:
    from lab.diagnose.diagnosis import Diagnosis
    from lab.report.scenario_text import ScenarioText
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A recording, its compared window, and the facts on that window."""

    label: str
    """The recording's name, with more of its path if both have the same name."""
    recording: Recording
    told: ScenarioText
    window: RecordingPhase
    counters: WindowCounters
    diagnosis: Diagnosis

    @property
    def start(self) -> float:
        """The start of the window, in seconds of the recording."""
        return (self.window.start - self.recording.clock.start) / _NS

    @property
    def scenario(self) -> str:
        """The scenario of the run; empty without a scenario, or if it is unknown here."""
        return self.told.scenario


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """The part of each recording to compare: a phase, or a range of seconds; by default all."""

    phase: str = ""
    begin: float | None = None
    until: float | None = None

    @property
    def whole(self) -> bool:
        """Whether the whole recordings are compared."""
        return not self.phase and self.begin is None and self.until is None


def read_run(recording: Recording, label: str, told: ScenarioText, choice: WindowChoice) -> ComparedRun:
    """Read the window of a recording.

    UsageError if the recording does not contain the window; InvalidInput if it is damaged, or has fewer than two
    samples, so that no counter can grow.
    """
    with damage_as_invalid(recording.folder.path):
        if len(recording.samples["ns"]) < 2:
            raise invalid(recording.folder.path, "has fewer than two samples: there is nothing to compare")
        window = recording.window(choice.phase, choice.begin, choice.until)
        diagnosis = diagnose_run(recording, choice.phase, choice.begin, choice.until)
        return ComparedRun(
            label=label,
            recording=recording,
            told=told,
            window=window,
            counters=WindowCounters(recording, window),
            diagnosis=diagnosis,
        )
