"""A line of a report's time line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Seconds of the recording, what happened, and the file of the recording that has it."""

    at: float
    what: str
    source: str
