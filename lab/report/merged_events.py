"""Queue pairs and routes on a timeline: changes at the same time are merged into one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.report.timeline_entry import TimelineEntry
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording

_TOGETHER: Final = 1.5
"""Seconds within which changes are merged: the kernel is polled for each device's queue pairs once a second."""
_NAMED: Final = 4
"""Maximum number of devices or prefixes in a line."""
_MAIN_TABLE: Final = 254  # rtnetlink(7): RT_TABLE_MAIN
_FORWARDS: Final = "unicast"


def queue_pair_moments(recording: Recording) -> Iterator[TimelineEntry]:
    """Yield a line for each group of queue pairs that reach a state together, at the time of the first."""
    told = recording.events(source="rdma", kind="qp")
    source = "rows/queue_pairs.parquet" if "queue_pairs" in recording.grown else "events.jsonl"
    for state in dict.fromkeys(str(event.data.get("state", "")) for event in told):
        reached = [event for event in told if str(event.data.get("state", "")) == state]
        for together in _bursts(reached):
            yield TimelineEntry(together[0].seconds, _text(together, state), source)


def route_moments(recording: Recording) -> Iterator[TimelineEntry]:
    """Yield a line for each group of routes of a node that change alike, at the time of the first."""
    alike: dict[tuple[str, str], list[RecordedEvent]] = {}
    for event in recording.events(source="kernel", kind="route"):
        alike.setdefault((event.node, _change(event)), []).append(event)
    for (node, change), events in alike.items():
        for together in _bursts(events):
            prefixes = list(dict.fromkeys(str(event.data.get("prefix", "")) for event in together))
            more = f" and {len(prefixes) - _NAMED} more" if len(prefixes) > _NAMED else ""
            text = f"{counted(len(prefixes), 'route')} {change}: {', '.join(prefixes[:_NAMED])}{more}"
            yield TimelineEntry(together[0].seconds, f"{node}: {text}" if node else text, "events.jsonl")


def _change(event: RecordedEvent) -> str:
    """Return what a change makes of a route: removed, or its interfaces, and its type unless it forwards packets.

    A table other than ``main`` is named: several VRFs may have the same prefix.
    """
    table = event.data.get("table", _MAIN_TABLE)
    within = "" if table == _MAIN_TABLE else f" in table {table}"
    if event.data.get("gone"):
        return f"removed{within}"
    interfaces, kind = event.data.get("interfaces"), event.data.get("type", _FORWARDS)
    via = f" via {' '.join(map(str, interfaces))}" if isinstance(interfaces, list) and interfaces else ""
    return f"{via}{'' if via and kind == _FORWARDS else f' of type {kind}'}{within}".strip()


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
