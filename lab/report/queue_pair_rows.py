"""Queue pairs on a timeline: changes at the same time are merged into one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.report.timeline_entry import TimelineEntry
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.telemetry.read.recording import RecordedEvent, Recording

_TOGETHER: Final = 1.5
"""Seconds within which changes are merged: the kernel is polled for each device's queue pairs once a second."""
_NAMED: Final = 4
"""Maximum number of devices in a line."""


def queue_pair_moments(recording: Recording) -> Iterator[TimelineEntry]:
    """Yield a line for each group of queue pairs that reach a state together, at the time of the first."""
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
