"""Events in words, and recordings with notes of every shape: each command that reads a recording reads them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.telemetry.read.recorded_events import RecordedEvent, event_text
from lab.telemetry.read.recording import Recording
from lab.telemetry.store.recording_folder import append_line, write_json
from lab.tui.playhead import marks_of
from tests.readers import read_by_all
from tests.unit.scenario.test_judge import storm
from tests.unit.telemetry.played import played

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN: list[dict[str, Any]] = [
    {"text": "traffic", "pairs": ["h1:h4", "h2:h4"], "qps": 1, "size": 65536, "verb": "write", "tclass": 106},
    {"text": "traffic", "pairs": ["h1:h5"], "gid_index": 1, "size": 4096},
    {"text": "transfer", "pairs": ["h1:h4"], "messages": 100, "size": 65536, "qps": 1, "verb": "write"},
    {"text": "fetch", "pairs": ["h1:h4"], "messages": 40, "size": 65536},
    {"text": "echo", "pair": "h1:h4", "node": "h1", "address": "10.0.0.7"},
    {"text": "stream", "pair": "h1:h4", "node": "h4", "port": 40001, "began": 7},
    {"text": "gave up", "pair": "h1:h4", "said": "no answer"},
    {"text": "gave up", "said": "no sweep over paths: nobody"},
    {"text": "hold", "seconds": 2.0},
    {"text": "command", "argv": ["rocelab", "qos", "set", "leaf1", "ecn.3.kmin=3KB"], "began": 7},
    {"text": "swept", "path": ["h1", "leaf1", "h4"], "port": 4791, "size": 64, "small": [3, 3], "large": [3, 0]},
    {"text": "asked", "node": "leaf1", "port": "swp3", "address": "10.0.0.1", "answers": ["02:00:00:00:00:01"]},
    {"text": "held back", "said": "no ping"},
]
"""What a rocelab notes."""
STRANGE: list[dict[str, Any]] = [
    {},
    {"text": ""},
    {"text": None},
    {"text": ["a", {"b": [1]}]},
    {"text": {"a": 1}},
    {"text": "x", "value": None, "other": True, "many": [], "none": {}, "deep": {"a": [{"b": [[]]}]}},
    {"text": "x", "value": 1e308, "big": 10**40, "nan": float("nan")},
    {"text": "\x1b[2J\x1b]0;title\x07", "[red]": "\\[/x]"},
    {"text": "x", "node": ["h1"], "interface": {"a": 1}, "source": ["port"], "seconds": "x"},
]
"""What somebody else may have written."""


def event(**data: Any) -> RecordedEvent:
    return RecordedEvent(0, 0.0, "caller", "note", data=data)


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (WRITTEN[0], "traffic pairs h1:h4 h2:h4, qps 1, size 65536, verb write, tclass 106"),
        (WRITTEN[5], "stream pair h1:h4, node h4, port 40001"),
        (STRANGE[0], "note"),
        (STRANGE[5], "x other yes, deep a=b="),
    ],
)
def test_a_note_is_a_line(note: dict[str, Any], text: str) -> None:
    assert event_text(event(**note)) == text


def test_another_event_is_its_kind_and_fields() -> None:
    route = RecordedEvent(
        0, 0.0, "kernel", "route", data={"prefix": "10.0.0.0/24", "interfaces": ["swp1", "swp2"], "gone": ""}
    )
    assert event_text(route) == "route prefix 10.0.0.0/24, interfaces swp1 swp2"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"admin_up": True, "up": False, "mtu": 9000, "gone": False}, "link enabled, down, mtu 9000"),
        ({"admin_up": False, "up": False, "gone": False}, "link disabled, down"),
        ({"admin_up": False, "up": False, "gone": True}, "link disabled, down, gone"),
        ({"up": [True, {"other": False}]}, "link up yes other=no"),
        ({"up": "soon"}, "link up soon"),
    ],
)
def test_booleans_are_words(data: dict[str, Any], text: str) -> None:
    assert event_text(RecordedEvent(0, 0.0, "kernel", "link", data=data)) == text


@pytest.mark.parametrize("scenario", [False, True], ids=["free", "scenario"])
def test_every_shape_of_note_is_replayed_reported_diagnosed_and_judged(tmp_path: Path, scenario: bool) -> None:
    notes = [*WRITTEN, *STRANGE]
    made = storm(tmp_path) if scenario else played(tmp_path / "run")
    for note in notes:
        append_line(made.folder.notes, {"ns": made.ns - 10**9, "kind": "note", **note})
    path = made.finished()
    assert len(marks_of(Recording.open(path))) >= len(notes) - 1
    read_by_all(path, tmp_path / "out")


def test_a_recording_without_notes_or_of_another_kind_of_note_is_replayed(tmp_path: Path) -> None:
    made = played(tmp_path / "run")
    made.folder.notes.unlink()
    append_line(made.folder.notes, {"ns": made.ns, "kind": "remark", "pairs": [["h1", "h2"], {"a": 1}]})
    write_json(made.folder.facts("params"), {})
    read_by_all(made.finished(), tmp_path / "out")
