"""A recording that does not begin leaves nothing behind, and what was there before stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.errors import OperationFailed
from lab.telemetry.record.recorder import _failed, _made, _removed_on_failure

if TYPE_CHECKING:
    from pathlib import Path


def begin_in(path: Path) -> None:
    with _removed_on_failure(path):
        folder = _made(path)
        (path / "counters").mkdir()
        (path / "recording.json").write_text("{}")
        raise _failed(folder, "No space left on device")


def test_the_name_is_free_again(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="No space left on device: nothing was recorded; name another folder"):
        begin_in(tmp_path / "runs" / "run")
    assert not (tmp_path / "runs" / "run").exists()


def test_an_empty_folder_stays_and_is_empty(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed):
        begin_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["other", "recording.json"])
def test_what_was_there_before_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Exception, match="is not empty"):
        begin_in(tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {name: "mine"}


def test_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Exception, match=r"cannot write .*file: File exists"):
        begin_in(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
