"""Runs a command in the VM for ``--vm`` and ``rocelab vm run``: starts the VM, and copies files there and back."""

from __future__ import annotations

import os
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import print_progress, stderr
from lab.vm.calls.call import call, on_terminal
from lab.vm.calls.handover import NamedFile
from lab.vm.checkpoints import auto_checkpoint
from lab.vm.host import vm_lifecycle
from lab.vm.host.qemu import Time
from lab.vm.host.vm_state import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.cli.command_line import CommandLine
    from lab.vm.host.vm_state import RunningVm

_LONG: Final = 10.0
"""Seconds after which a line reports how long the command took."""
_SHELLS: Final = {"bash", "sh"}
"""Interactive programs."""


def send(argv: Sequence[str], line: CommandLine | None, name: str | None = None, written: Iterable[str] = ()) -> int:
    """Run ``argv`` in the VM, which is started if needed, and return its exit code.

    ``line`` is the parsed command line of a rocelab command; its files are copied to the VM or back. ``written`` is
    copied back, too. ``name`` is the name of the VM, by default that of the environment.
    """
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", "") if name is None else name)
    files = line.files(argv) if line else []
    if line and line.path == ("up",) and not state.running():
        from lab.model.load import read_text  # noqa: PLC0415 - pydantic, which other commands do not need here

        for file in files:  # before minutes of building and starting a VM
            read_text(Path(file.text))
    known = {file.text for file in files if file.written}
    files += [NamedFile(text, written=True) for text in written if text not in known]
    work = auto_checkpoint.work_of(argv, os.environ) if line and line.entry.checkpointed else ""
    running = vm_lifecycle.up(state, vm_lifecycle.Wanted(work=work), print_progress)
    touch = vm_lifecycle.touch(running, work, state, print_progress)
    began = time.monotonic()
    command = [*argv, auto_checkpoint.RESTORED] if touch.done else list(argv)
    code = call(state, running, command, files, note, attended=is_attended(argv, line))
    if line:
        _report_wait(line, running, time.monotonic() - began)
        if line.entry.after_vm:
            module, _, function = line.entry.after_vm.partition(":")
            getattr(import_module(f"lab.cli.{module}"), function)(running.guest_cache)
    if code == 0:
        vm_lifecycle.keep(touch, state, print_progress)
    return code


def note(text: str) -> None:
    """Print a note on standard error."""
    stderr.print(f"note: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def is_attended(argv: Sequence[str], line: CommandLine | None) -> bool:
    """Return whether the command must run in real time: see ``command_entry.Attended``."""
    if line:
        return line.attended(terminal=on_terminal())
    return on_terminal() and not _SHELLS.isdisjoint(argv)


def _report_wait(line: CommandLine, running: RunningVm, seconds: float) -> None:
    """Print how long a command took in real time, because its own figures are in virtual time."""
    if running.time is Time.VIRTUAL and seconds >= _LONG and not line.entry.open_ended:
        print_progress(f"took {seconds:.0f} s by your clock; its own figures are in virtual time")
