"""Events in words, for time lines: the kind of an event, or what its note says, and its fields."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.telemetry.read.recording import RecordedEvent

COMMAND: Final = "command"
"""What a note says of a command of rocelab that was typed; its ``argv`` are the words."""
_LEFT_OUT: Final = frozenset({"text", "began"})
"""Fields of a note that are said otherwise, or mean nothing to a reader."""


def event_text(event: RecordedEvent) -> str:
    """What happened, in a line, without where. Fields may hold whatever JSON can; empty ones are left out."""
    if event.kind == "note" and event.data.get("text") == COMMAND and isinstance(event.data.get("argv"), list):
        return shlex.join(map(str, event.data["argv"]))
    of_note = event.kind == "note" and event.data.get("text")
    words = [_text_of(event.data["text"]) if of_note else event.kind.replace("_", " ")]
    shown = ((name, _text_of(value)) for name, value in event.data.items() if name not in _LEFT_OUT)
    words.append(", ".join(f"{name} {text}" for name, text in shown if text))
    return " ".join(word for word in words if word)


def _text_of(value: object) -> str:
    """A value of a field: the items of lists one after the other, those of objects with their names."""
    match value:
        case None:
            return ""
        case list() | tuple():
            return " ".join(filter(None, map(_text_of, value)))
        case dict():
            return " ".join(f"{name}={_text_of(item)}" for name, item in value.items())
    return str(value)
