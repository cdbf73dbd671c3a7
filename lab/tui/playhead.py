"""The position of a replay: moves forwards or backwards at some speed, or jumps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.telemetry.read.recorded_events import event_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
SLOWEST, FASTEST = 1 / 64, 64.0
_ROUTINE: Final = {
    "paused", "resumed", "expired", "xoff_sent", "xon_sent", "pause_ignored", "group_drops", "marked",
    "qp",
}  # fmt: skip
"""Kinds of events that ports and devices report by the hundred: only the first of a series is a mark."""
_SERIES: Final = _NS
"""Events of the same kind and port within this time belong to the same series."""


@dataclass(frozen=True, slots=True)
class PlayheadMark:
    """A time to jump to."""

    ns: int
    text: str
    phase: bool = False


@dataclass
class Playhead:
    """Times are in ns of CLOCK_MONOTONIC; ``speed`` is seconds of the recording per second."""

    start: int
    end: int
    at: int
    speed: float = 1.0
    backwards: bool = False
    playing: bool = True

    def advance(self, seconds: float) -> None:
        """Move by the given seconds of real time; stop at either end."""
        if not self.playing:
            return
        step = round(seconds * self.speed * _NS)
        self.put(self.at - step if self.backwards else self.at + step)
        if self.at == (self.start if self.backwards else self.end):
            self.playing = False

    def put(self, at: int) -> None:
        """Move to a time, limited to the start and end."""
        self.at = min(max(at, self.start), self.end)

    def faster(self, factor: float) -> None:
        """Multiply the speed, within its limits."""
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)

    def toggle(self) -> None:
        """Pause or resume; at the end, restart from the other end."""
        if not self.playing and self.at == (self.start if self.backwards else self.end):
            self.at = self.end if self.backwards else self.start
        self.playing = not self.playing

    def jump(self, moments: Sequence[int], by: int) -> None:
        """Pause at the next (1) or previous (-1) of some times, which are sorted; stay if there is none."""
        self.playing = False
        place = bisect_right(moments, self.at) if by > 0 else bisect_left(moments, self.at) - 1
        if 0 <= place < len(moments):
            self.put(moments[place])


def marks_of(recording: Recording) -> list[PlayheadMark]:
    """Return the marks of a recording by time: phases, commands, and events without repetitions in a series.

    Injected faults are not marks: they would give away the answer to users who search for the cause.
    """
    found = [PlayheadMark(phase.start, f"phase {phase.name}", phase=True) for phase in recording.phases]
    found += [
        PlayheadMark(each.ns, each.text) for each in recording.commands if each.argv[:2] != ("rocelab", "fault")
    ]
    last: dict[tuple[str, ...], int] = {}
    for event in recording.events():
        key = (event.source, event.kind, event.node, event.interface, str(event.data.get("number", "")))
        first = event.ns - last.get(key, event.ns - 2 * _SERIES) > _SERIES
        last[key] = event.ns
        if event.kind not in {"phase", "neighbour", "route"} and (first or event.kind not in _ROUTINE):
            found += [PlayheadMark(event.ns, _text(event))] if event.data.get("before") != "" else []
    return sorted(found, key=lambda mark: mark.ns)


def _text(event: RecordedEvent) -> str:
    where = ":".join(part for part in (event.node, event.interface) if part)
    return f"{where} {event_text(event)}" if where else event_text(event)
