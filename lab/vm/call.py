"""Run a command in the guest as if it ran here: directory, terminal, signals and exit code go across."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import OperationFailed
from lab.kernel import process, watch
from lab.vm import ssh
from lab.vm.machine import connection, has_ended, is_shared, last_fault

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from lab.vm.ssh import Connection
    from lab.vm.state import Running

IN_VM = "ROCELAB_IN_VM"
"""Set in the guest's environment."""
HOME = "/root"
"""Where a command runs whose directory on the host the guest does not see."""


def inside_vm() -> bool:
    """Whether this process runs in the guest."""
    return bool(os.environ.get(IN_VM))


def call(running: Running, command: list[str], note: Callable[[str], None]) -> int:
    """Run ``command`` in the guest with the caller's streams and return its exit code.

    It runs in the caller's directory when that is shared; otherwise ``note`` gets one line that says so.
    SIGINT, SIGTERM and SIGHUP reach the command. OperationFailed when the VM is lost meanwhile.
    """
    link = connection(running)
    identity = ssh.new_call()
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    argv = link.call_argv(identity, _directory(running, note), command, terminal=terminal)
    code = process.interact(argv) if terminal else watch.relay(argv, lambda number: _pass_on(link, identity, number))
    if code == ssh.LOST and has_ended(running):
        why = f"\n{said}\n" if (said := last_fault()) else ""
        raise OperationFailed(f"the VM ended while {command[0]} ran{why}", "rocelab vm up")
    return code


def _pass_on(link: Connection, identity: str, number: signal.Signals) -> None:
    process.run(link.signal_argv(identity, number.name.removeprefix("SIG")), check=False)


def _directory(running: Running, note: Callable[[str], None]) -> str:
    here = Path.cwd()
    if is_shared(running, here):
        return str(here)
    note(
        f"{here} is not shared with the VM, files stay inside it; to share: rocelab vm down; rocelab vm up --share ."
    )
    return HOME
