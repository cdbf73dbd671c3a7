"""Recorders that run in the background for a fabric: known to later commands, and ended before the fabric is.

Each has a file below the fabric's state, locked for as long as it lives: whoever gets the lock knows that it is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.state import FabricState

_PATIENCE: Final = 60.0
"""Seconds that one has to finish its recording."""


@dataclass(frozen=True, slots=True)
class Running:
    """One that runs: what it is called, its process, and where its recording lies."""

    name: str
    pid: int
    folder: Path


@contextlib.contextmanager
def enlisted(state: FabricState, name: str, folder: Path) -> Iterator[None]:
    """The calling process is a recorder of the fabric meanwhile; UsageError when there is one of this name."""
    state.recorders.mkdir(exist_ok=True)
    path = state.recorders / f"{name}.json"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"a recorder {name} runs for fabric {state.name}", "give another name") from error
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"pid": os.getpid(), "folder": str(folder)}).encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(file)


def running(state: FabricState) -> list[Running]:
    """Those that run, by name."""
    found = []
    for path in sorted(state.recorders.glob("*.json")):
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            if _is_locked(file.fileno()):
                about = json.load(file)
                found.append(Running(path.stem, int(about["pid"]), Path(about["folder"])))
    return found


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def stop(recorder: Running) -> None:
    """Ask one to finish, and return when it has ended, however that went; OperationFailed when it does not end."""
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
    """End all of a fabric that is about to go; one that hangs is ended with the fabric's programs."""
    for recorder in running(state):
        with contextlib.suppress(OperationFailed):
            stop(recorder)
