"""Programs that keep a fault up: waited for, refused with their last words, and not waited for without end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.faults import helper_process
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAMS = {
    "willing": "print('ready', flush=True)\nimport time\ntime.sleep(600)\n",
    "unable": "import sys\nprint('Traceback', flush=True)\nsys.exit('no interface eth9')\n",
    "silent": "import time\ntime.sleep(600)\n",
}


class Node:
    """A namespace that is our own."""

    name = "rl-test.h1"
    group = None

    def inside(self, work: Callable[[], Any]) -> Any:
        return work()


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[process.Process]:
    """The programs that were started, which are there to be run."""
    found: list[process.Process] = []
    start = process.start

    def kept(*arguments: Any, **options: Any) -> process.Process:
        found.append(start(*arguments, **options))
        return found[-1]

    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(helper_process, "_home", lambda: str(tmp_path))
    monkeypatch.setattr(process, "start", kept)
    return found


def test_one_that_is_ready_runs_on(started: list[process.Process]) -> None:
    helper_process.start(Node(), "mark", "willing", [])  # type: ignore[arg-type]
    (program,) = started
    program.returncode = None
    assert program.poll() is None
    program.kill()
    assert program.wait() == -9


def test_one_that_cannot_is_told_by_its_last_words(started: list[process.Process]) -> None:
    with pytest.raises(OperationFailed, match=r"unable did not start in rl-test\.h1: no interface eth9"):
        helper_process.start(Node(), "mark", "unable", [])  # type: ignore[arg-type]
    assert started[0].returncode == 1


def test_one_that_is_silent_is_ended(started: list[process.Process], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_process, "_PATIENCE", 0.2)
    with pytest.raises(OperationFailed, match=r"silent in rl-test\.h1 says nothing within 0\.2 s"):
        helper_process.start(Node(), "mark", "silent", [])  # type: ignore[arg-type]
    assert started[0].returncode == -9
