"""Decides whether a command runs here or in the VM: a command that acts on a fabric runs wherever that fabric runs.

Every command imports this module. The modules about fabrics and VMs take 3 MB, so they are imported only if needed.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from lab.cli.command_entry import Target
from lab.errors import ExitCode, OperationFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.command_line import CommandLine
    from lab.vm.host.vm_state import RunningVm, StateFolder

_IN_VM = "ROCELAB_IN_VM"
"""The same as in ``lab.vm.calls.call``, which is slow to import."""


def runs_in_vm(line: CommandLine) -> bool:
    """Return whether a command line runs in the VM.

    ``--vm`` and ``--no-vm`` decide, except for commands that only run on the host. Otherwise a command that acts on a
    running fabric runs here when that fabric is here, else in the VM, if the VM is up. Every other command runs here.
    """
    if os.environ.get(_IN_VM) or line.target is Target.HOST:
        return False
    if line.in_vm is not None:
        return line.in_vm
    if line.target is not Target.FABRIC or _shared_vm() is None:
        return False
    from lab.backends.fabric_state import all_fabrics  # noqa: PLC0415

    here = [fabric.name for fabric in all_fabrics()]
    return not here or (line.fabric is not None and line.fabric not in here)


def run_in_vm(line: CommandLine) -> int:
    """Run a command line in the VM, and return its exit code."""
    from lab.cli.kit.vm_call import send  # noqa: PLC0415 - slow to import, and needed only for the VM

    return send(line.argv, line)


def ask_vm(*words: str) -> Any:
    """Return the answer of ``rocelab WORDS --json`` in the VM; None if no VM is up.

    UsageError with the VM's own message if it rejects the command, OperationFailed if the command fails otherwise.
    """
    machine = _shared_vm()
    if machine is None:
        return None
    from lab.vm.calls.call import ask  # noqa: PLC0415

    code, output = ask(*machine, ["rocelab", *words, "--json"])
    if code == ExitCode.USAGE:
        raise _rejection(output, words)
    if code:
        raise OperationFailed(f"the VM does not answer rocelab {' '.join(words)}", f"rocelab --vm {' '.join(words)}")
    return json.loads(output)


def _rejection(output: bytes, words: Sequence[str]) -> UsageError:
    """Return the usage error that a command in the VM printed as JSON; errors of its arguments are no JSON."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        error = json.loads(output)["error"]
        return UsageError(error["message"], error["remedy"])
    return UsageError(f"the VM rejects rocelab {' '.join(words)}", f"rocelab --vm {' '.join(words)}")


def _shared_vm() -> tuple[StateFolder, RunningVm] | None:
    """Return the running VM that shares this checkout; None inside the VM itself."""
    from lab.vm.calls.call import inside_vm  # noqa: PLC0415
    from lab.vm.host.vm_lifecycle import is_shared  # noqa: PLC0415
    from lab.vm.host.vm_state import state_folder  # noqa: PLC0415
    from lab.vm.image.recipe import checkout  # noqa: PLC0415

    if inside_vm():
        return None
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", ""))
    running = state.running()
    return (state, running) if running and is_shared(running, checkout()) else None
