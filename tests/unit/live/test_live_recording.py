"""The recording that the page starts and stops: its states, and errors of the commands, which run beside the page."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from lab.live.live_recording import LiveRecording
from lab.live.update_ring import UpdateRing
from lab.telemetry.sample.command_records import INTERVAL, CommandRecords
from lab.telemetry.store.recording_folder import Folder, RecordKind, append_line
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Recorded:
    """A recording whose commands are programs that print an answer and exit with a code."""

    def __init__(self, answer: dict[str, Any], code: int = 0) -> None:
        self.ring = UpdateRing()
        self.words: list[list[str]] = []
        self._program = f"import sys; print({json.dumps(answer)!r}); sys.exit({code})"
        self.recording = LiveRecording("incast", self.ring, self._argv)

    def _argv(self, words: Sequence[str]) -> list[str]:
        self.words.append(list(words))
        return [sys.executable, "-c", self._program]

    @property
    def told(self) -> dict[str, str]:
        """What pages show."""
        found: dict[str, str] = json.loads(self.ring.after(0, dict, 0))["recording"]
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


def test_at_the_end_it_is_saved() -> None:
    it = Recorded({"folder": "/x/recordings/incast-1"})
    with it.recording as recording:
        recording.act("start")
        assert recording.end() == "/x/recordings/incast-1"
        assert [words[0] for words in it.words] == ["start", "stop"]
        assert recording.end() == ""


def test_an_error_is_one_line_on_the_page() -> None:
    it = Recorded({"error": {"message": "the disk is full", "remedy": "free some space"}}, 1)
    with it.recording as recording:
        recording.act("start")
        until(lambda: it.is_in(""))
        assert it.told["line"] == "the disk is full: free some space"
        assert recording.end() == ""


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
