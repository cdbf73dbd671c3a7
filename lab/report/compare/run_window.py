"""One of the two recordings of a comparison: its window, what its scenario says of it, and its diagnosis."""

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
    """A recording, the window of it that is compared, and what is known of that window."""

    label: str
    """Its name, or more of its path where both have one name."""
    recording: Recording
    told: ScenarioText
    window: RecordingPhase
    counters: WindowCounters
    diagnosis: Diagnosis

    @property
    def start(self) -> float:
        """Where the window begins, in seconds of the recording."""
        return (self.window.start - self.recording.clock.start) / _NS

    @property
    def scenario(self) -> str:
        """The scenario that made it; empty of a recording that no scenario made, or none that is known here."""
        return self.told.scenario


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """Which part of each recording is compared: a phase of this name, or seconds; by default all of it."""

    phase: str = ""
    begin: float | None = None
    until: float | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of each recording."""
        return not self.phase and self.begin is None and self.until is None


def read_run(recording: Recording, label: str, told: ScenarioText, choice: WindowChoice) -> ComparedRun:
    """Read the window of a recording.

    UsageError when it does not have the window; InvalidInput when it is damaged, or has no two samples in which a
    counter could grow.
    """
    with damage_as_invalid(recording.folder.path):
        if len(recording.samples["ns"]) < 2:
            raise invalid(recording.folder.path, "has fewer than two samples: there is nothing to compare")
        window = recording.window(choice.phase, choice.begin, choice.until)
        diagnosis = diagnose_run(recording, choice.phase, choice.begin, choice.until)
        return ComparedRun(label, recording, told, window, WindowCounters(recording, window), diagnosis)
