"""Stop VMs and remove their files: identify QEMU by record or pid file, and end it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process.process import readable
from lab.vm.host.vm_state import RunningVm, process_start

if TYPE_CHECKING:
    from lab.vm.host.vm_state import StateFolder

_FAREWELL: Final = 5.0
"""Seconds that a QEMU whose connection was lost may take to end."""


def has_ended(running: RunningVm) -> bool:
    """Return whether the VM, whose connection was lost, has ended. QEMU's exit takes a while to free its memory."""
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return True
    try:
        return not running.alive() or readable(handle, _FAREWELL)
    finally:
        os.close(handle)


def clear(state: StateFolder) -> bool:
    """End the VM of a state folder, recorded or half-started, and remove its files. Return whether one was ended."""
    recorded = _recorded(state)
    ended = False
    for pid, started in recorded:
        ended = _end(pid, started) or ended
    traces = (state.record, state.pid_file, state.monitor, state.frozen, state.untouched, state.call_ended)
    for path in (*traces, *state.ports):
        path.unlink(missing_ok=True)
    return ended


def _recorded(state: StateFolder) -> list[tuple[int, int]]:
    """Return pids with start times: of the record, and of a QEMU that was started but not recorded."""
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
    """Return whether the process has this folder's pid file on its command line, as rocelab's QEMU does."""
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
        # No data is lost: the disk is a temporary layer, and shared folders are written through.
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        readable(handle)
        return True
    finally:
        os.close(handle)
