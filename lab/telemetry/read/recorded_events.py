"""Events of a recording, and their text for timelines: the kind, or the text of a note, and the fields."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND: Final = "command"
"""The text of a note that records a rocelab command; its ``argv`` field has the command's words."""
_LEFT_OUT: Final = frozenset({"text", "began"})
"""Fields of a note that are not printed: they are shown otherwise, or are of no use to a reader."""

_FLAGS: Final = {"admin_up": ("enabled", "disabled"), "up": ("up", "down"), "gone": ("gone", "")}
"""Text of a boolean field if it is true, and if it is false."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event, at ``ns`` of CLOCK_MONOTONIC, ``seconds`` into the recording.

    ``source`` is the reporter: port, kernel, routing, rdma, caller or recorder. ``data`` are the fields of its kind.
    """

    ns: int
    seconds: float
    source: str
    kind: str
    node: str = ""
    interface: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def event_text(event: RecordedEvent) -> str:
    """Return one line on an event, without its place. Fields may hold any JSON value; empty ones are omitted."""
    if event.kind == "note" and event.data.get("text") == COMMAND and isinstance(event.data.get("argv"), list):
        return shlex.join(map(str, event.data["argv"]))
    of_note = event.kind == "note" and event.data.get("text")
    words = [_text_of(event.data["text"]) if of_note else event.kind.replace("_", " ")]
    shown = (_field_text(name, value) for name, value in event.data.items() if name not in _LEFT_OUT)
    words.append(", ".join(filter(None, shown)))
    return " ".join(word for word in words if word)


def _field_text(name: str, value: object) -> str:
    """Return a field's name and value; "" if the value is empty."""
    if isinstance(value, bool) and name in _FLAGS:
        return _FLAGS[name][not value]
    text = _text_of(value)
    return f"{name} {text}" if text else ""


def _text_of(value: object) -> str:
    """Return the text of a field's value: list items separated by spaces, object members as ``name=value``."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return " ".join(filter(None, map(_text_of, value)))
        case dict():
            return " ".join(f"{name}={_text_of(item)}" for name, item in value.items())
    return str(value)
