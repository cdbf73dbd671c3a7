"""Queue pairs on a time line: those that come, change or go together are one line, not one each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.report.timeline_entry import TimelineEntry
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.telemetry.read.recording import RecordedEvent, Recording

_TOGETHER: Final = 1.5
"""Seconds within which changes belong together: the kernel is asked for each device's queue pairs once a second."""
_NAMED: Final = 4
"""Devices that a line names."""


def queue_pair_moments(recording: Recording) -> Iterator[TimelineEntry]:
    """A line for each state that queue pairs reach together, when the first of them was seen there."""
    told = recording.events(source="rdma", kind="qp")
    source = "rows/queue_pairs.parquet" if "queue_pairs" in recording.grown else "events.jsonl"
    for state in dict.fromkeys(str(event.data.get("state", "")) for event in told):
        reached = [event for event in told if str(event.data.get("state", "")) == state]
        for together in _bursts(reached):
            yield TimelineEntry(together[0].seconds, _text(together, state), source)


def _bursts(events: Sequence[RecordedEvent]) -> Iterator[list[RecordedEvent]]:
    burst: list[RecordedEvent] = []
    for event in events:
        if burst and event.seconds - burst[0].seconds > _TOGETHER:
            yield burst
            burst = []
        burst.append(event)
    if burst:
        yield burst


def _text(events: Sequence[RecordedEvent], state: str) -> str:
    devices = list(dict.fromkeys(f"{event.node}:{event.interface}" for event in events))
    more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    where = f"{', '.join(devices[:_NAMED])}{more}"
    programs = ", ".join(dict.fromkeys(str(each) for event in events if (each := event.data.get("program"))))
    what = "gone" if state == "gone" else f"in state {state}"
    return f"{counted(len(events), 'QP')} of {where} {what}{f': {programs}' if programs else ''}"
