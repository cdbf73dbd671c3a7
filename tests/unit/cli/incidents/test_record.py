"""``rocelab record ls``: every recording of a directory is listed, whatever the others are like."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.incidents import record
from lab.cli.schemas import adapter
from lab.errors import InvalidInput
from lab.telemetry.record.finish import finish
from tests.unit.telemetry.played import played

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def listed(folder: Path) -> dict[str, dict[str, Any]]:
    said = CliRunner().invoke(app, ["record", "ls", "-o", str(folder), "--json"])
    assert said.exit_code == 0, said.exception
    adapter("record ls").validate_json(said.stdout)
    return {each["name"]: each for each in json.loads(said.stdout)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged"),
        ("[]", "is not rocelab's"),
        ('{"format": "rocelab-recording", "version": 9}', "is a recording of version 9"),
        ('{"format": "rocelab-recording", "version": 1}', "is damaged: fabric is null"),
        ("HZ NaN", "is damaged: hz is NaN"),
        ("HZ [20]", "is damaged: hz is [20]"),
        ("HZ -1", "is damaged: hz is -1"),
    ],
)
def test_a_damaged_one_is_listed_as_that_beside_the_others(tmp_path: Path, text: str, why: str) -> None:
    good = played(tmp_path / "good").finished()
    (tmp_path / "bad").mkdir()
    if text.startswith("HZ "):
        text = re.sub(r'"hz": [^,\n]+', f'"hz": {text.removeprefix("HZ ")}', (good / "recording.json").read_text())
    (tmp_path / "bad" / "recording.json").write_text(text)
    found = listed(tmp_path)
    assert found["bad"]["state"] == "damaged"
    assert found["bad"]["why"].startswith(why)
    assert (found["good"]["state"], found["good"]["why"]) == ("complete", "")
    shown = CliRunner().invoke(app, ["record", "ls", "-o", str(tmp_path)], env={"COLUMNS": "300"})
    assert shown.exit_code == 0
    assert len([line for line in shown.stdout.splitlines() if "damaged" in line and "bad" in line]) == 1


def _replaced(about: Any, place: str, value: Any) -> Any:
    """``recording.json`` with another value at a place such as ``tables.ports.keys``."""
    *outer, last = place.split(".")
    inner = about
    for name in outer:
        inner = inner[name]
    inner[last] = value
    return about


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("tables", None),
        ("tables", []),
        ("tables.ports", None),
        ("tables.ports", [["node"]]),
        ("tables.ports.keys", "node"),
        ("tables.ports.keys", [3]),
        ("tables.priorities.columns", 0),
        ("tables.priorities.columns", ["rx_prio_bytes"]),
        ("tables.priorities.columns.rx_prio_bytes", None),
    ],
)
@pytest.mark.parametrize("command", [["record", "show"], ["diagnose"], ["replay", "--at", "1"]])
def test_damaged_descriptions_of_tables_are_an_error(
    tmp_path: Path, place: str, value: object, command: list[str]
) -> None:
    about = played(tmp_path / "bad").finished() / "recording.json"
    about.write_text(json.dumps(_replaced(json.loads(about.read_text()), place, value)))
    said = CliRunner().invoke(app, [*command, str(tmp_path / "bad")])
    assert isinstance(said.exception, InvalidInput)
    assert "is damaged: tables is" in str(said.exception)
    assert listed(tmp_path)["bad"]["state"] == "damaged"


@pytest.mark.parametrize("name", ["recording.json", "notes.jsonl", "events.jsonl", "counters/ports.parquet"])
@pytest.mark.parametrize("replace", [os.mkfifo, lambda path: path.symlink_to("/dev/null")], ids=["FIFO", "device"])
def test_a_file_that_could_block_or_never_end_is_not_read(
    tmp_path: Path, name: str, replace: Callable[[Path], None]
) -> None:
    played(tmp_path / "good").finished()
    bad = played(tmp_path / "bad").finished()
    (bad / name).unlink()
    replace(bad / name)
    found = listed(tmp_path)
    assert {name: each["state"] for name, each in found.items()} == {"good": "complete", "bad": "damaged"}
    assert found["bad"]["why"].startswith("is not a regular file")
    said = CliRunner().invoke(app, ["record", "show", str(bad)])
    assert isinstance(said.exception, InvalidInput)
    assert str(said.exception).startswith(f"{bad / name}: is not a regular file")


def test_one_that_was_interrupted_is_not_complete(tmp_path: Path) -> None:
    for name in ("interrupted", "down"):
        made = played(tmp_path / name)
        made.killed()
        why = {"interrupted": "Interrupted: ended by SIGINT", "down": "the fabric was taken down"}[name]
        finish(made.folder, {**made.about, "skipped": 0, "why": why})
    killed = played(tmp_path / "killed").killed()
    assert {name: each["state"] for name, each in listed(tmp_path).items()} == {
        "interrupted": "interrupted", "down": "interrupted", "killed": "incomplete",
    }  # fmt: skip
    assert listed(tmp_path)["interrupted"]["why"] == "Interrupted: ended by SIGINT"
    assert listed(tmp_path)["interrupted"]["seconds"] > 6
    shown = CliRunner().invoke(app, ["record", "show", str(tmp_path / "interrupted")]).stdout
    assert "interrupted: Interrupted: ended by SIGINT" in shown
    assert (
        "incomplete: its recorder still runs, or was killed"
        in CliRunner().invoke(app, ["record", "show", str(killed)]).stdout
    )


def test_one_that_goes_on_is_not_called_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = played(tmp_path / "run").killed()  # as a running recorder leaves it, too
    monkeypatch.setattr(record, "_running", lambda: {run.resolve(): None})
    shown = CliRunner().invoke(app, ["record", "show", str(run)]).stdout
    assert "so far: rocelab record stop ends it" in shown
    assert "killed" not in shown


def test_what_lies_beside_recordings_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert listed(tmp_path) == {}


def test_a_file_has_no_recordings(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refused = CliRunner().invoke(app, ["record", "ls", "-o", str(file)]).exception
    assert str(refused) == f"{file} is a file: name a folder of recordings with -o"
