"""Decides whether a command runs here or in the VM: a command that acts on a fabric runs wherever that fabric runs.

Every command imports this module. What knows fabrics and VMs takes 3 MB, so it is imported only where it is needed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from lab.cli.command_registry import Target
from lab.errors import ExitCode, OperationFailed

if TYPE_CHECKING:
    from lab.cli.command_line import CommandLine
    from lab.vm.host.vm_state import RunningVm, StateFolder

_IN_VM = "ROCELAB_IN_VM"
"""As ``lab.vm.calls.call`` has it, whose import would cost every command in the VM time."""


def runs_in_vm(line: CommandLine) -> bool:
    """Whether a command line is one for the VM.

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
    from lab.cli.kit.vm_call import send  # noqa: PLC0415 - paid for only by those who use the VM

    return send(line.argv, line)


def ask_vm(*words: str) -> Any:
    """The answer of ``rocelab WORDS --json`` in the VM; None when no VM is up, or there is no such fabric in it.

    OperationFailed when the command fails there.
    """
    machine = _shared_vm()
    if machine is None:
        return None
    from lab.vm.calls.call import ask  # noqa: PLC0415

    code, output = ask(*machine, ["rocelab", *words, "--json"])
    if code == ExitCode.USAGE:
        return None
    if code:
        raise OperationFailed(f"the VM does not answer rocelab {' '.join(words)}", f"rocelab --vm {' '.join(words)}")
    return json.loads(output)


def _shared_vm() -> tuple[StateFolder, RunningVm] | None:
    """The VM that is up and has this checkout; None in the VM itself."""
    from lab.vm.calls.call import inside_vm  # noqa: PLC0415
    from lab.vm.host.vm_lifecycle import is_shared  # noqa: PLC0415
    from lab.vm.host.vm_state import state_folder  # noqa: PLC0415
    from lab.vm.image.recipe import checkout  # noqa: PLC0415

    if inside_vm():
        return None
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", ""))
    running = state.running()
    return (state, running) if running and is_shared(running, checkout()) else None
