"""The cast of a recording's commands, by the rules of asciicast v2: docs.asciinema.org, "asciicast v2"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lab.telemetry.read.recording import Recording
from lab.telemetry.store.recording_folder import append_line
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, Made

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6


def command(made: Made, began: int, ended: int, *argv: str, node: str = "h1", out: str = "", code: int = 0) -> None:
    line = {"ns": START + began * MS, "end_ns": START + ended * MS, "node": node, "argv": list(argv),
            "exit_code": code, "stdout": out, "stderr": ""}  # fmt: skip
    append_line(made.folder.commands, line)


def played(path: Path) -> tuple[dict[str, Any], list[tuple[float, str, str]]]:
    """Header and events of a cast, each held against the format."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    header, *events = [json.loads(line) for line in text.splitlines()]
    assert header["version"] == 2
    assert all(isinstance(header[name], int) and header[name] > 0 for name in ("width", "height", "timestamp"))
    for event in events:
        time, code, data = event
        assert isinstance(time, int | float)
        assert time >= 0
        assert code in {"o", "i", "m", "r"}
        assert isinstance(data, str)
    assert [event[0] for event in events] == sorted(event[0] for event in events)
    return header, [tuple(event) for event in events]


def test_each_command_is_typed_when_it_began_and_answers_when_it_ended(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.phase("baseline")
    command(made, 100, 400, "ping", "-c", "1", "10.0.0.2", out="1 packets\nté\x1b[1m\n", code=1)
    command(made, 500, 600, "sh", "-c", "echo 'a b'", node="leaf1", out="a b")
    recording = Recording.open(made.finished())
    (file,) = recording.terminals
    header, events = played(file)
    assert header["timestamp"] == (START + 10**18) // 10**9
    assert events == [
        (0.0, "m", "baseline"),
        (0.1, "o", "\x1b[1mh1$ ping -c 1 10.0.0.2\x1b[0m\r\n"),
        (0.4, "o", "1 packets\r\nté\x1b[1m\r\n[exit code 1]\r\n"),
        (0.5, "o", "\x1b[1mleaf1$ sh -c 'echo '\"'\"'a b'\"'\"''\x1b[0m\r\n"),
        (0.6, "o", "a b\r\n"),
    ]


def test_of_commands_that_overlap_each_is_told_with_its_own_line(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.sample()
    command(made, 300, 400, "short", out="now")
    command(made, 100, 900, "long", out="then")
    (file,) = Recording.open(made.finished()).terminals
    assert [(time, data.count("$"), data.split("\r\n")[-2]) for time, _, data in played(file)[1]] == [
        (0.1, 1, "\x1b[1mh1$ long\x1b[0m"),
        (0.3, 1, "\x1b[1mh1$ short\x1b[0m"),
        (0.4, 0, "now"),
        (0.9, 1, "then"),
    ]


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_without_commands_or_without_an_end_there_is_none(tmp_path: Path, end: str) -> None:
    made = Made(tmp_path / "run", fabric("pfc-ecn"))
    made.sample()
    if end == "killed":
        command(made, 100, 200, "ping")
    assert Recording.open(getattr(made, end)()).terminals == ()
