"""Changes of links and routing sessions in a phase, without events that only report a state for the first time.

A recorder reports each session when it first asks a router, and each link that the kernel mentions for any reason,
such as a capture that begins. Neither is a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.telemetry.store.session_states import TITLES, UP

if TYPE_CHECKING:
    from lab.telemetry.read.recorded_events import RecordedEvent
    from lab.telemetry.read.recording import Recording


def session_changes(rec: Recording, phase: str) -> list[RecordedEvent]:
    """Return routing sessions that came up or went down in a phase, and those down at the first poll."""
    told = rec.events(source="routing", during=phase)
    return [event for event in told if event.kind in TITLES and _has_changed(event)]


def is_lost(event: RecordedEvent) -> bool:
    """Return whether a session's event reports that it is not up."""
    return str(event.data["state"]) != UP[event.kind]


def _has_changed(event: RecordedEvent) -> bool:
    """Return whether an event is a change; a session re-established between two polls has a connection count."""
    state, before = str(event.data["state"]), str(event.data.get("before", ""))
    if state == before:
        return "connections" in event.data
    return bool(before) or is_lost(event)


def link_changes(rec: Recording, phase: str) -> list[RecordedEvent]:
    """Return links that went down or came up in a phase, compared with their previous state."""
    within = rec.phase(phase)
    up, found = _links_at_first(rec), []
    for event in rec.events(source="kernel", kind="link"):
        link, now = f"{event.node}:{event.interface}", bool(event.data["up"])
        if now != up.get(link, True) and within.start <= event.ns <= within.end:
            found.append(event)
        up[link] = now
    return found


def _links_at_first(rec: Recording) -> dict[str, bool]:
    """Return whether each link was up when the recording began; empty if that was not recorded."""
    try:
        state = rec.state("before")
    except UsageError:
        return {}
    return {
        f"{node}:{link['ifname']}": "LOWER_UP" in link["flags"]
        for node, known in state.items()
        for link in known.get("links", ())
    }
