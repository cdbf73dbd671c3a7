"""A second rocelab command as a child of this one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lab.cli.kit import child_command
from lab.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.py").write_text("print('{}')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    with child_command.child_command("scenario", "ls", "--json") as child, child.stream.makefile() as output:
        assert json.load(output)[0]["name"]


def test_an_error_of_the_command_is_that_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json, it is the document that this command prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    with child_command.child_command("analyze", "nosuch") as child:
        assert not child.stream.recv(1)
        with pytest.raises(UsageError) as raised:
            child.report_end()
    assert str(raised.value) == "cannot read nosuch: No such file or directory: name a capture, pcapng or pcap"
    assert raised.value.remedy == "name a capture, pcapng or pcap"
    assert capsys.readouterr().err == ""
