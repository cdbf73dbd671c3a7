"""A recorder in a process of its own, without a fabric: what becomes of it if its start is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import Interrupted
from lab.telemetry.record import background_recorder
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FABRIC: Any = SimpleNamespace(state=None)


class FakeRecorder:
    """A recorder that writes its end into the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_live(self) -> bool:
        return False

    def discard(self) -> None:
        (self._folder / "discarded").touch()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    @contextlib.contextmanager
    def begin(folder: Path, *_: object, **_options: object) -> Iterator[FakeRecorder]:
        yield FakeRecorder(folder)
        (folder / "ended").touch()

    monkeypatch.setattr(background_recorder, "Recorder", SimpleNamespace(begin=begin))
    monkeypatch.setattr(background_recorder, "enlisted", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(background_recorder, "_join", lambda _: None)
    return tmp_path


def left(folder: Path) -> list[str]:
    """What the recorder has written when it has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)
    return sorted(path.name for path in folder.iterdir())


def test_a_recorder_goes_on_after_the_block(folder: Path) -> None:
    with background_recorder.recording(folder, FABRIC, hz=20.0, captures=()):
        assert not list(folder.iterdir())
    assert left(folder) == ["ended"]


def test_a_recorder_is_discarded_if_the_block_is_interrupted(folder: Path) -> None:
    """The line that it records may not have been printed."""
    with (
        pytest.raises(Interrupted),
        background_recorder.recording(folder, FABRIC, hz=20.0, captures=()),
    ):
        raise Interrupted("ended by SIGINT")
    assert left(folder) == ["discarded", "ended"]


def test_a_recorder_is_discarded_if_its_command_is_killed(folder: Path) -> None:
    pid = os.fork()
    if not pid:
        with background_recorder.recording(folder, FABRIC, hz=20.0, captures=()):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    until((folder / "ended").exists)
    assert left(folder) == ["discarded", "ended"]
