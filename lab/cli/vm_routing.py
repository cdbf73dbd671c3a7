"""Where a command runs: here, or in the VM, where the fabric is that it is about.

Every command asks. What knows fabrics and VMs is imported where the answer depends on them: it takes 3 MB.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from lab.errors import ExitCode, OperationFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.argv import CommandLine
    from lab.vm.host.vm_state import RunningVm, StateFolder

_ABOUT_A_FABRIC: Final = {
    "capture", "congestion", "counters", "craft", "diagnose", "down", "exec", "expect", "fault", "inspect", "path",
    "qos", "rdma", "record", "scenario", "shell", "status", "top", "vtysh",
}  # fmt: skip
_RUNS: Final = {
    "qos": {"show", "set", "events"},
    "record": {"shell", "start", "stop"},
    "scenario": {"break", "hint", "check", "fix", "explain"},
}
"""Subcommands that act on a running fabric; the others read files, or say themselves where they run."""


def follows_to_vm(words: Sequence[str]) -> bool:
    """Whether the command line after ``rocelab``, which does not say where it runs, is one for the VM.

    A command that acts on a running fabric runs where that fabric runs: here when it is here, otherwise in the VM,
    if the VM is up. Every other command runs here.
    """
    own = words[: words.index("--")] if "--" in words else words
    command = next((word for word in own if not word.startswith("-")), "")
    if command not in _ABOUT_A_FABRIC or "--help" in own or _machine() is None:
        return False
    from lab.cli.argv import parse  # noqa: PLC0415 - it imports the command, which runs elsewhere if the VM is down

    line = parse(words)
    if not _acts_on_a_fabric(line):
        return False
    from lab.backends.fabric_state import all_fabrics  # noqa: PLC0415

    here = [fabric.name for fabric in all_fabrics()]
    return not here or (line.fabric is not None and line.fabric not in here)


def _acts_on_a_fabric(line: CommandLine) -> bool:
    """Whether this call of one of these commands needs a fabric, and not only files."""
    match line.command:
        case (("qos" | "record" | "scenario") as group, *below):
            return not _RUNS[group].isdisjoint(below)
        case ("craft",):
            return line.values.get("send") is not None
        case ("diagnose",):
            return line.values.get("run") is None
        case ("down",):
            return not line.values.get("all_")
        case ("top",):  # without --stream it draws here, from samples that it has sent from there
            return bool(line.values.get("stream"))
        case _:
            return True


def ask_vm(*words: str) -> Any:
    """What ``rocelab WORDS --json`` answers in the VM; None when no VM is up, or there is no such fabric in it.

    OperationFailed when it has no answer.
    """
    machine = _machine()
    if machine is None:
        return None
    from lab.vm.calls.call import ask  # noqa: PLC0415

    code, said = ask(*machine, ["rocelab", *words, "--json"])
    if code == ExitCode.USAGE:
        return None
    if code:
        raise OperationFailed(f"the VM does not answer rocelab {' '.join(words)}", f"rocelab --vm {' '.join(words)}")
    return json.loads(said)


def _machine() -> tuple[StateFolder, RunningVm] | None:
    """The VM of this checkout that is up; None in the VM itself."""
    from lab.vm.calls.call import inside_vm  # noqa: PLC0415
    from lab.vm.host.vm_lifecycle import is_shared  # noqa: PLC0415
    from lab.vm.host.vm_state import state_folder  # noqa: PLC0415
    from lab.vm.image.recipe import checkout  # noqa: PLC0415

    if inside_vm():
        return None
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", ""))
    running = state.running()
    return (state, running) if running and is_shared(running, checkout()) else None
