"""A line of a report's timeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A line of the timeline: an event."""

    at: float
    """Seconds of the recording."""
    what: str
    source: str
    """The file that contains the event."""
