"""Several training jobs at once: each has a process of its own, and errors of any of them are raised."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.scenario.traffic import training
from lab.telemetry.sample.child_process import ChildProcess
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STAGE: Any = None


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Jobs write their PID into a file of their name. ``bad`` ones fail; ``endless`` and ``silent`` ones wait."""

    def run(_stage: object, job: str, during: Callable[[], None] | None = None) -> None:
        (tmp_path / job).write_text(str(os.getpid()))
        if job == "bad":
            raise OperationFailed("job bad has 1 wrong sums", "run the scenario again")
        if job in {"endless", "silent"}:
            signal.pause()
        if during is not None:
            during()

    monkeypatch.setattr(training, "_noted", lambda _stage, job: job)
    monkeypatch.setattr(training, "_run", run)
    return tmp_path


def test_each_job_but_the_first_has_a_process(runs: Path) -> None:
    called: list[str] = []
    training.train_together(STAGE, "first", "second", "third", during=lambda: called.append("during"))
    pids = [int((runs / job).read_text()) for job in ("first", "second", "third")]
    assert pids[0] == os.getpid()
    assert len(set(pids)) == 3
    assert called == ["during"]


def test_an_error_of_another_job_is_raised() -> None:
    with pytest.raises(OperationFailed, match="job bad has 1 wrong sums"):
        training.train_together(STAGE, "first", "bad")


def test_other_jobs_end_with_the_first() -> None:
    with pytest.raises(OperationFailed, match="wrong sums"):
        training.train_together(STAGE, "bad", "endless")


def test_other_jobs_end_with_the_process_of_the_scenario(runs: Path) -> None:
    """A scenario that is killed has no time to end them."""
    scenario = ChildProcess("a scenario", lambda _: training.train_together(STAGE, "endless", "silent"))
    until(lambda: all((runs / job).exists() and (runs / job).read_text() for job in ("endless", "silent")))
    other = os.pidfd_open(int((runs / "silent").read_text()))
    try:
        os.kill(scenario.pid, signal.SIGKILL)
        assert select.select([other], [], [], 30)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(other, signal.SIGKILL)
        os.close(other)
        scenario.end()
