"""A second rocelab command as a child of this one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lab.cli.kit import child_command

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.py").write_text("print('{}')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child_command, "global_options", list)
    with child_command.child_command("scenario", "ls", "--json") as child, child.stream.makefile() as output:
        assert json.load(output)[0]["name"]
