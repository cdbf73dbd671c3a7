"""A second rocelab command as a child of this one."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from lab.cli.kit import child_command
from lab.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.py").write_text("print('{}')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    with child_command.child_command("scenario", "ls", "--json") as child, child.stream.makefile() as output:
        assert json.load(output)[0]["name"]


def error_of(*words: str) -> BaseException:
    """The error with which this command ends because its child does."""
    with child_command.child_command(*words) as child:
        assert not child.stream.recv(1)
        with pytest.raises(BaseException) as raised:  # noqa: PT011 - its kind is the caller's question
            child.report_end()
    return raised.value


def test_an_error_of_the_command_is_that_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json, it is the document that this command prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    error = error_of("analyze", "nosuch")
    assert isinstance(error, UsageError)
    assert str(error) == "cannot read nosuch: No such file or directory: name a capture, pcapng or pcap"
    assert error.remedy == "name a capture, pcapng or pcap"
    assert capsys.readouterr().err == ""


def test_an_error_without_a_remedy_keeps_its_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fabric.yaml").write_text("name: [\nhosts: 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    error = error_of("topology", "show", "fabric.yaml")
    assert isinstance(error, InvalidInput)
    assert [(each.path, each.line > 0) for each in error.problems] == [("", True)]
    assert str(error).startswith("fabric.yaml:")
    assert error.as_data()["remedy"] == ""


@pytest.mark.parametrize("line", ['{"error": 1}', "5", "[]"])
def test_another_last_line_is_printed(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(child_command, "PROGRAM", (sys.executable, "-c", "import sys; sys.exit(sys.argv[1])"))
    monkeypatch.setattr(child_command, "global_options", list)
    assert isinstance(error_of(line), SystemExit)
    assert capsys.readouterr().err == f"{line}\n"
