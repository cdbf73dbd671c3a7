"""Who was paused, from when to when: the events of the ports, which are exact to the microsecond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.telemetry.read.recording import Recording

LASTING: Final = 0.1
"""Seconds from which on a pause is a standstill: what congestion causes is over within a few milliseconds."""


@dataclass(frozen=True, slots=True)
class PauseInterval:
    """A port that might not send a priority, in seconds of the recording; ``open`` until its end."""

    port: str
    priority: int
    start: float
    end: float
    open: bool

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start

    @property
    def lasting(self) -> bool:
        """Whether it is a standstill."""
        return self.seconds >= LASTING


def pauses_of(recording: Recording) -> list[PauseInterval]:
    """All pauses, by when they began; one that is renewed goes on."""
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
