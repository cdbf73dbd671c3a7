"""Recorders that run in the background of a fabric; later commands list and stop them, and ``down`` ends them.

A live view registers a folder, too, and then gets the same records of commands and jobs, but is not listed.

Each recorder holds a lock on its file in the fabric's state directory as long as it runs. If the lock is free, the
recorder has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.fabric_state import FabricState
    from lab.errors import LabError

_PATIENCE: Final = 60.0
"""Seconds for a recorder to finish its recording."""


_RECORDER: Final = ".json"
_VIEW: Final = ".view"
_FAILED: Final = ".failed"


@dataclass(frozen=True, slots=True)
class RunningRecorder:
    """A running recorder: its name, its process id, and the folder of its recording."""

    name: str
    pid: int
    folder: Path


@contextlib.contextmanager
def enlisted(state: FabricState, name: str, folder: Path) -> Iterator[None]:
    """Register the calling process as a recorder of the fabric; UsageError if one of this name is running."""
    state.recorders.mkdir(exist_ok=True)
    path = state.recorders / f"{name}{_RECORDER}"
    with locks.held_if_free(path, make=True) as ours:
        if not ours:
            raise UsageError(f"a recorder {name} runs for fabric {state.name}", "give another name")
        path.write_text(json.dumps({"pid": os.getpid(), "folder": str(folder)}), encoding="utf-8")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def viewing(state: FabricState) -> Iterator[Path]:
    """Yield a new folder that gets records of the fabric's commands and jobs, like that of a recorder.

    UsageError if the fabric is gone.
    """
    try:
        state.recorders.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise UsageError(f"fabric {state.name} is gone", "rocelab ls lists what runs") from None
    with tempfile.TemporaryDirectory(prefix="view-", dir=state.recorders, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        path = state.recorders / f"{folder.name}{_VIEW}"
        with locks.held(path, make=True):  # waits for a command that looks whether the lock is free
            path.write_text(json.dumps({"pid": os.getpid(), "folder": str(folder)}), encoding="utf-8")
            try:
                yield folder
            finally:
                path.unlink(missing_ok=True)


def note_failure(state: FabricState, name: str, error: LabError) -> None:
    """Keep the error of a recorder that ended early, for ``failure``. Does nothing if the fabric is gone."""
    with contextlib.suppress(OSError):
        (state.recorders / f"{name}{_FAILED}").write_text(
            json.dumps({"message": error.message, "remedy": error.remedy}), encoding="utf-8"
        )


def failure(state: FabricState, name: str | None) -> OperationFailed | None:
    """Return why the recorder ``name``, or any, ended early, and forget it; None if none did."""
    for path in sorted(state.recorders.glob(f"*{_FAILED}")):
        if name in {None, path.stem}:
            with contextlib.suppress(OSError, ValueError, LookupError):
                about = json.loads(path.read_text(encoding="utf-8"))
                path.unlink()
                return OperationFailed(about["message"], about["remedy"])
    return None


def running(state: FabricState) -> list[RunningRecorder]:
    """Return the running recorders, sorted by name."""
    return _running(state, _RECORDER)


def folders(state: FabricState) -> list[Path]:
    """Return the folders that get records of commands and jobs: of running recorders, and of live views."""
    return [each.folder for suffix in (_RECORDER, _VIEW) for each in _running(state, suffix)]


def _running(state: FabricState, suffix: str) -> list[RunningRecorder]:
    found = []
    for path in sorted(state.recorders.glob(f"*{suffix}")):
        with contextlib.suppress(OSError, ValueError), locks.held_if_free(path) as gone:
            if not gone:
                about = json.loads(path.read_text(encoding="utf-8"))
                found.append(RunningRecorder(path.stem, int(about["pid"]), Path(about["folder"])))
    return found


def stop(recorder: RunningRecorder) -> None:
    """Send SIGTERM to a recorder and wait until it has ended; OperationFailed if it does not end in 60 s."""
    try:
        process = os.pidfd_open(recorder.pid)
    except ProcessLookupError:
        return
    try:
        ended = select.poll()
        ended.register(process, select.POLLIN)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        if not ended.poll(_PATIENCE * 1000):
            raise OperationFailed(
                f"recorder {recorder.name} does not end", f"kill -9 {recorder.pid}: its recording stays readable"
            )
    finally:
        os.close(process)


def stop_all(state: FabricState) -> None:
    """Stop all recorders of a fabric before it is removed; one that hangs is killed with the fabric's programs."""
    for recorder in running(state):
        with contextlib.suppress(OperationFailed):
            stop(recorder)
