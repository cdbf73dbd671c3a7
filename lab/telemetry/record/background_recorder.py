"""A recorder that outlives the command that started it: it runs until it is stopped, or its fabric is gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING, Final

from lab.backends.recorders import enlisted, note_failure
from lab.errors import OperationFailed
from lab.kernel.process import cgroup
from lab.kernel.process.signals import received
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.sample.child_process import ChildProcess, Control, failure, lasting_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lab.backends.backend import Fabric

_LOOK: Final = 1.0
"""Seconds between two checks whether the fabric still exists."""


@contextlib.contextmanager
def recording(folder: Path, fabric: Fabric, *, hz: float, captures: Sequence[str]) -> Iterator[None]:
    """Start a recorder in a process of its own; the block begins when it records. Its errors are raised here.

    It goes on after the block. If the block fails or is interrupted, or this process is killed before, the recorder
    ends, and nothing of the recording is left.
    """

    def work(control: Control) -> None:
        if control.heard() is None:
            return  # interrupted before it asked
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
                if _is_released(control, signals):
                    _wait(recorder, signals)
                else:
                    recorder.discard()
        except OperationFailed as error:
            if begun:  # nobody waits for the answer: the next rocelab record stop reports it
                note_failure(fabric.state, folder.name, error)
            raise

    with lasting_child(f"recorder {folder.name}", work, ChildProcess.end) as recorder:
        said = recorder.ask({"do": "begin"})
        if "error" in said:
            raise failure(said)
        yield
        recorder.release()


def _join(fabric: Fabric) -> None:
    """Join the fabric's cgroup, so that teardown of the fabric ends this process."""
    with cgroup.opened(fabric.state.groups / "recorders") as group:
        if group is not None:
            os.write(group, b"0")


def _is_released(control: Control, signals: int) -> bool:
    """Wait until the parent releases this process, or another command stops it; False if the parent ends first."""
    asked = select.poll()
    for descriptor in (signals, *control.descriptors):
        asked.register(descriptor, select.POLLIN)
    return signals in {descriptor for descriptor, _ in asked.poll()} or control.heard() is not None


def _wait(recorder: Recorder, signals: int) -> None:
    asked = select.poll()
    asked.register(signals, select.POLLIN)
    while not asked.poll(_LOOK * 1000) and recorder.is_live():
        pass
