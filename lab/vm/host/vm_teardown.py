"""VMs end without a trace: whose process a record or a pid file tells of, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.vm.host.vm_state import RunningVm, process_start

if TYPE_CHECKING:
    from lab.vm.host.vm_state import StateFolder

_FAREWELL: Final = 5.0
"""Seconds that a killed QEMU may take to end."""


def has_ended(running: RunningVm) -> bool:
    """Whether the VM, whose connection was lost, is gone: QEMU outlives it while its memory is given back."""
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return True
    try:
        return not running.alive() or bool(select.select([handle], [], [], _FAREWELL)[0])
    finally:
        os.close(handle)


def clear(state: StateFolder) -> bool:
    """End whatever VM the folder tells of, recorded or half-started, and remove what it left."""
    recorded = _recorded(state)
    ended = False
    for pid, started in recorded:
        ended = _end(pid, started) or ended
    traces = (state.record, state.pid_file, state.monitor, state.frozen, state.untouched, state.call_ended)
    for path in (*traces, *state.ports):
        path.unlink(missing_ok=True)
    return ended


def _recorded(state: StateFolder) -> list[tuple[int, int]]:
    """Pids with start times: of the record, and of a QEMU that was started and not recorded any more."""
    found = []
    with contextlib.suppress(FileNotFoundError, OperationFailed):
        running = RunningVm.from_json(state.record.read_text(encoding="utf-8"))
        found.append((running.pid, running.pid_started))
    with contextlib.suppress(FileNotFoundError, ValueError):
        pid = int(state.pid_file.read_text(encoding="ascii"))
        started = process_start(pid)
        if started is not None and _is_ours(pid, state):
            found.append((pid, started))
    return found


def _is_ours(pid: int, state: StateFolder) -> bool:
    """Whether the process names this folder's pid file on its command line, as our QEMU does."""
    try:
        return str(state.pid_file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _end(pid: int, started: int) -> bool:
    """End one process, identified by pid and start time, and wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if process_start(pid) != started:
            return False
        # Nothing is lost: the disk is a throw-away view, and shared folders are written through.
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
        return True
    finally:
        os.close(handle)
