"""Where a command runs: here, or in the VM, where the fabric is that it is about.

Every command asks. What knows fabrics and VMs is imported where the answer depends on them: it takes 3 MB.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.errors import ExitCode, OperationFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.vm.state import Running, StateFolder

_ABOUT_A_FABRIC: Final = {
    "capture", "congestion", "counters", "craft", "diagnose", "down", "exec", "expect", "fault", "inspect", "path",
    "qos", "rdma", "record", "scenario", "shell", "status", "top", "vtysh",
}  # fmt: skip
_RUNS: Final = {"record": {"shell", "start", "stop"}, "scenario": {"break", "hint", "check", "fix", "explain"}}
"""What these do with a fabric that runs; the rest reads files, or says itself where it runs."""


def follows_to_vm(words: Sequence[str]) -> bool:
    """Whether the command line after ``rocelab``, which does not say where it runs, is one for the VM.

    What is about a running fabric runs where that fabric does: here when it is here, and when it is not, in the VM
    that is up. Everything else runs here.
    """
    own = words[: words.index("--")] if "--" in words else words
    command = next((word for word in own if not word.startswith("-")), "")
    if command not in _ABOUT_A_FABRIC or not {"--help", "--all"}.isdisjoint(own):
        return False
    does = next((word for word in own[own.index(command) + 1 :] if not word.startswith("-")), "")
    sends_none = command == "craft" and "--send" not in own
    if sends_none or (command in _RUNS and does not in _RUNS[command]):
        return False
    if command == "top" and "--stream" not in own:  # drawn here, of samples that come from there
        return False
    if (command == "diagnose" and _names_a_recording(own)) or _machine() is None:
        return False
    from lab.backends.state import all_fabrics  # noqa: PLC0415

    here = [fabric.name for fabric in all_fabrics()]
    if not here:
        return True
    from lab.cli.words import fabric_of  # noqa: PLC0415 - it reads all commands, and is seldom asked

    named = fabric_of(words)
    return named is not None and named not in here


def _names_a_recording(words: Sequence[str]) -> bool:
    """Whether one of the words is a path, or a recording in recordings/: files are read here."""
    names = [word for word in words if not word.startswith("-")]
    return any("/" in name or Path(name).is_dir() or Path("recordings", name).is_dir() for name in names)


def ask_vm(*words: str) -> Any:
    """What ``rocelab WORDS --json`` answers in the VM; None when no VM is up, or there is no such fabric in it.

    OperationFailed when it has no answer.
    """
    machine = _machine()
    if machine is None:
        return None
    from lab.vm.call import ask  # noqa: PLC0415

    code, said = ask(*machine, ["rocelab", *words, "--json"])
    if code == ExitCode.USAGE:
        return None
    if code:
        raise OperationFailed(f"the VM does not answer rocelab {' '.join(words)}", f"rocelab --vm {' '.join(words)}")
    return json.loads(said)


def _machine() -> tuple[StateFolder, Running] | None:
    """The VM of this checkout that is up; None in the VM itself."""
    from lab.vm.call import inside_vm  # noqa: PLC0415
    from lab.vm.machine import is_shared  # noqa: PLC0415
    from lab.vm.recipe import checkout  # noqa: PLC0415
    from lab.vm.state import state_folder  # noqa: PLC0415

    if inside_vm():
        return None
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", ""))
    running = state.running()
    return (state, running) if running and is_shared(running, checkout()) else None
