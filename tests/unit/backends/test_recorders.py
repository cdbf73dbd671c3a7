"""Recorders in the background: known while they live, whoever else wants their name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lab.backends import fabric_state, recorders
from lab.backends.fabric_state import FabricState
from lab.cli.kit import recorded_command
from lab.errors import OperationFailed, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FabricState:
    monkeypatch.setattr(fabric_state, "FABRICS", tmp_path)
    made = FabricState("some")
    made.directory.mkdir()
    return made


def test_one_is_known_while_it_lives(fabric: FabricState, tmp_path: Path) -> None:
    assert recorders.running(fabric) == []
    with recorders.enlisted(fabric, "first", tmp_path / "first"):
        assert recorders.running(fabric) == [recorders.RunningRecorder("first", os.getpid(), tmp_path / "first")]
    assert recorders.running(fabric) == []


def test_another_of_its_name_is_refused_and_it_stays_known(fabric: FabricState, tmp_path: Path) -> None:
    with recorders.enlisted(fabric, "first", tmp_path / "first"):
        with (
            pytest.raises(UsageError, match="a recorder first runs for fabric some"),
            recorders.enlisted(fabric, "first", tmp_path / "other"),
        ):
            pytest.fail("it was let in")
        assert [each.folder for each in recorders.running(fabric)] == [tmp_path / "first"]


def test_a_live_view_gets_records_and_is_not_listed(fabric: FabricState) -> None:
    with recorders.viewing(fabric) as view:
        assert recorders.folders(fabric) == [view]
        assert recorders.running(fabric) == []
        assert not recorded_command.is_recorded(fabric)
    assert list(fabric.recorders.iterdir()) == []


def test_a_live_view_of_a_fabric_that_is_gone_is_one_clear_line(fabric: FabricState) -> None:
    fabric.directory.rmdir()
    with pytest.raises(UsageError, match="fabric some is gone"), recorders.viewing(fabric):
        pytest.fail("there is nothing to view")


def test_what_one_that_was_killed_left_is_nobody(fabric: FabricState, tmp_path: Path) -> None:
    fabric.recorders.mkdir()
    (fabric.recorders / "first.json").write_text('{"pid": 1, "folder": "/tmp/first"}')
    assert recorders.running(fabric) == []
    with recorders.enlisted(fabric, "first", tmp_path / "first"):
        assert len(recorders.running(fabric)) == 1


def test_why_one_ended_early_is_reported_once(fabric: FabricState) -> None:
    assert recorders.failure(fabric, None) is None
    fabric.recorders.mkdir()
    recorders.note_failure(fabric, "first", OperationFailed("recording first: No space left", "the data is readable"))
    assert recorders.failure(fabric, "second") is None
    assert str(recorders.failure(fabric, None)) == "recording first: No space left: the data is readable"
    assert recorders.failure(fabric, "first") is None
