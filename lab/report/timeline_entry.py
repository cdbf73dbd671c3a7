"""A line of a report's timeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An event: its time in seconds of the recording, its text, and the file of the recording that it is from."""

    at: float
    what: str
    source: str
