"""The pauses of ports with start and end, from the ports' events: exact to the microsecond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.telemetry.read.recording import Recording

LASTING: Final = 0.1
"""Seconds from which a pause counts as a standstill: pauses due to congestion last a few milliseconds."""


@dataclass(frozen=True, slots=True)
class PauseInterval:
    """A pause of a port's priority, in seconds of the recording; ``open`` if it lasts to the end."""

    port: str
    priority: int
    start: float
    end: float
    open: bool

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.end - self.start

    @property
    def lasting(self) -> bool:
        """Whether the pause is a standstill."""
        return self.seconds >= LASTING


def pauses_of(recording: Recording) -> list[PauseInterval]:
    """Return all pauses by start time; a renewed pause is one pause."""
    return sorted(_pauses(recording), key=lambda pause: (pause.start, pause.port))


def _pauses(recording: Recording) -> Iterator[PauseInterval]:
    since: dict[tuple[str, int], float] = {}
    for event in recording.events(source="port"):
        key = (f"{event.node}:{event.interface}", int(event.data.get("number", 0)))
        if event.kind == "paused":
            since.setdefault(key, event.seconds)
        elif event.kind in {"resumed", "expired"} and key in since:
            yield PauseInterval(*key, since.pop(key), event.seconds, open=False)
    for key, start in since.items():
        yield PauseInterval(*key, start, max(start, recording.seconds), open=True)
