"""The recording that the page starts and stops: its states, and errors of the commands, which run beside the page."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lab.live.live_recording import LiveRecording
from lab.live.update_ring import UpdateRing
from lab.telemetry.sample.command_records import INTERVAL, CommandRecords
from lab.telemetry.store.recording_folder import Folder, RecordKind, append_line
from tests.patience import until
from tests.unit.telemetry.played import played

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Recorded:
    """A recording whose commands are programs that print an answer and exit with a code."""

    def __init__(self, answer: dict[str, Any], code: int = 0) -> None:
        self.ring = UpdateRing()
        self.words: list[list[str]] = []
        self.lines: list[str] = []
        self.answer = answer
        self.code = code
        self.recording = LiveRecording("incast", self.ring, self._argv, self.lines.append)

    def _argv(self, words: Sequence[str]) -> list[str]:
        self.words.append(list(words))
        return [sys.executable, "-c", f"import sys; print({json.dumps(self.answer)!r}); sys.exit({self.code})"]

    @property
    def told(self) -> dict[str, str]:
        """What pages show."""
        found: dict[str, str] = json.loads(self.ring.after(0, 0, dict, 0))["recording"]
        return found

    def is_in(self, state: str) -> bool:
        self.recording.look()
        return self.told["state"] == state


def test_it_starts_and_stops() -> None:
    it = Recorded({"folder": "/x/recordings/incast-1"})
    with it.recording as recording:
        recording.act("stop")
        assert it.words == []
        recording.act("start")
        assert it.told["state"] == "starting"
        recording.act("start")
        until(lambda: it.is_in("recording"))
        name = it.told["name"]
        recording.act("stop")
        until(lambda: it.is_in(""))
        assert it.told["line"] == f"saved: rocelab report {name}"
        assert it.words == [["start", name], ["stop", name]]
        assert name.startswith("incast-")
        assert it.lines == [f"saved: rocelab report {name}"]


def test_at_the_end_it_is_saved() -> None:
    it = Recorded({"folder": "/x/recordings/incast-1"})
    with it.recording as recording:
        recording.act("start")
        recording.end()
        assert [words[0] for words in it.words] == ["start", "stop"]
        assert it.lines == [f"saved: rocelab report {it.told['name']}"]
        recording.end()
        assert len(it.words) == 2


@pytest.mark.parametrize("complete", [True, False])
def test_a_recording_that_something_else_has_ended(tmp_path: Path, complete: bool) -> None:
    """``rocelab down`` ends and saves it; then it cannot be stopped, because the fabric is gone."""
    made = played(tmp_path / "run")
    folder = made.finished() if complete else made.folder.path
    it = Recorded({"folder": str(folder)})
    with it.recording as recording:
        recording.act("start")
        until(lambda: it.is_in("recording"))
        it.answer, it.code = {"error": {"message": "no fabric incast is running", "remedy": "rocelab up"}}, 2
        recording.end()
    saved = f"saved: rocelab report {it.told['name']}"
    assert it.lines == [saved if complete else "no fabric incast is running: rocelab up"]


def test_a_start_without_a_folder_has_failed() -> None:
    it = Recorded({})
    with it.recording as recording:
        recording.act("start")
        recording.end()
    assert it.lines == ["the recording failed while starting"]


def test_an_error_is_one_line_on_the_page() -> None:
    it = Recorded({"error": {"message": "the disk is full", "remedy": "free some space"}}, 1)
    with it.recording as recording:
        recording.act("start")
        until(lambda: it.is_in(""))
        assert it.told["line"] == "the disk is full: free some space"
        assert it.lines == ["the disk is full: free some space"]


def test_commands_and_steps_are_read_once_and_nothing_grows(tmp_path: Path) -> None:
    records, folder = CommandRecords(tmp_path, 0), Folder(tmp_path)
    line = {"node": "", "argv": ["rocelab", "status"], "exit_code": 0, "stdout": "ok", "stderr": "", "end_ns": 2}
    append_line(folder.records(RecordKind.COMMAND), {"ns": 1, **line})
    append_line(folder.records(RecordKind.TRUTH), {"ns": 1, "did": "inject", "kind": "link-down", "place": "h1"})
    found = [event for number in range(4) for event in records.look(number * INTERVAL)]
    assert found == [
        {
            "source": "command", "kind": "command", "node": "", "began": 1, "argv": ["rocelab", "status"], "code": 0,
            "output": "ok",
        }
    ]  # fmt: skip
    assert [path.name for path in tmp_path.rglob("*.jsonl*")] == []
