"""Files of namespaces below /etc/netns: ours go, with the folder if we made it, and nobody else's."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.kernel.process import netns_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(netns_files, "FOLDER", tmp_path / "netns")
    return tmp_path / "netns"


def test_a_folder_that_we_made_goes_with_the_last_fabric(folder: Path) -> None:
    netns_files.write_hosts(["rl-a-h1", "rl-a-h2"], "10.0.0.1 h1\n")
    netns_files.write_hosts(["rl-b-h1"], "10.0.0.1 h1\n")
    assert (folder / "rl-a-h2" / "hosts").read_text() == "10.0.0.1 h1\n"
    netns_files.remove(["rl-a-h1", "rl-a-h2"])
    assert sorted(entry.name for entry in folder.glob("rl-*")) == ["rl-b-h1"]
    for _ in range(2):  # down can be repeated
        netns_files.remove(["rl-b-h1"])
        assert not folder.exists()


@pytest.mark.parametrize("last", ["mkdir", "touch", "rename", "write_text", "rmtree"])
def test_whatever_ends_it_down_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    """As SIGKILL does: nothing of ours runs after the call that was the last."""

    class Killed(BaseException):
        """Nobody catches it."""

    where: Any = shutil if last == "rmtree" else Path
    call = getattr(where, last)

    def once(*arguments: Any, **others: Any) -> None:
        call(*arguments, **others)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(where, last, once)
        with contextlib.suppress(Killed):
            netns_files.write_hosts(["rl-a-h1"], "")
            netns_files.remove(["rl-a-h1"])
    netns_files.remove(["rl-a-h1"])
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("theirs", [[], ["vpn"]])
def test_a_folder_that_was_there_stays(folder: Path, theirs: list[str]) -> None:
    folder.mkdir()
    for name in theirs:
        (folder / name).mkdir()
    netns_files.write_hosts(["rl-a-h1"], "")
    netns_files.remove(["rl-a-h1"])
    assert [entry.name for entry in folder.iterdir()] == theirs


def test_where_etc_cannot_be_written_there_are_no_names_and_no_error(folder: Path) -> None:
    folder.write_text("")  # nothing can be made below a file
    netns_files.write_hosts(["rl-a-h1"], "")
    netns_files.remove(["rl-a-h1"])
    assert folder.is_file()
