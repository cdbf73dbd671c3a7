"""A recorder in a process of its own, without a fabric: what becomes of it if its start is interrupted."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import Interrupted
from lab.telemetry.record import background_recorder
from lab.telemetry.sample.child_process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class InterruptedChild(ChildProcess):
    """A child whose answer a signal anticipates."""

    def ask(self, message: dict[str, Any], timeout: float = 60.0) -> dict[str, Any]:
        super().ask(message, timeout)
        raise Interrupted("ended by SIGINT")


def test_a_recorder_whose_start_is_interrupted_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def begin(folder: Path, *_: object, **_options: object) -> Iterator[Any]:
        try:
            yield SimpleNamespace(is_live=lambda: True)
        finally:
            folder.touch()

    monkeypatch.setattr(background_recorder, "ChildProcess", InterruptedChild)
    monkeypatch.setattr(background_recorder, "Recorder", SimpleNamespace(begin=begin))
    monkeypatch.setattr(background_recorder, "enlisted", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(background_recorder, "_join", lambda _: None)
    fabric: Any = SimpleNamespace(state=None)
    with pytest.raises(Interrupted):
        background_recorder.start(tmp_path / "run", fabric, hz=20.0, captures=())
    assert (tmp_path / "run").exists()
