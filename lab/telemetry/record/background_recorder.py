"""A recorder that outlives the command that started it: it runs until it is stopped, or its fabric is gone."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Final

from lab.backends.recorders import enlisted, note_failure
from lab.errors import Interrupted, OperationFailed
from lab.kernel.process import cgroup
from lab.kernel.process.signals import received
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.sample.child_process import ChildProcess, Control, failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.backends.backend import Fabric

_LOOK: Final = 1.0
"""Seconds between two checks whether the fabric still exists."""


def start(folder: Path, fabric: Fabric, *, hz: float, captures: Sequence[str]) -> None:
    """Start a recorder in a process of its own and return when it records; its errors are raised here.

    If a signal ends the wait for it, it is stopped.
    """

    def work(control: Control) -> None:
        _join(fabric)
        begun = False
        try:
            with (
                received([signal.SIGTERM]) as signals,
                enlisted(fabric.state, folder.name, folder),
                Recorder.begin(folder, fabric, hz=hz, captures=captures, audited=True) as recorder,
            ):
                begun = True
                control.say({"begun": True})
                _wait(recorder, signals)
        except OperationFailed as error:
            if begun:  # nobody waits for the answer: the next rocelab record stop reports it
                note_failure(fabric.state, folder.name, error)
            raise

    recorder = ChildProcess(f"recorder {folder.name}", work)
    try:
        said = recorder.ask({"do": "begin"})
    except Interrupted:
        os.kill(recorder.pid, signal.SIGTERM)
        recorder.end()
        raise
    if "error" in said:
        raise failure(said)


def _join(fabric: Fabric) -> None:
    """Join the fabric's cgroup, so that teardown of the fabric ends this process."""
    with cgroup.opened(fabric.state.groups / "recorders") as group:
        if group is not None:
            os.write(group, b"0")


def _wait(recorder: Recorder, signals: int) -> None:
    asked = select.poll()
    asked.register(signals, select.POLLIN)
    while not asked.poll(_LOOK * 1000) and recorder.is_live():
        pass
