"""Runs a command in the VM as ``--vm`` and ``rocelab vm run`` do: starts the VM, takes files along and back."""

from __future__ import annotations

import os
import time
from importlib import import_module
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
"""Seconds of waiting after which a line says how long it was."""
_SHELLS: Final = {"bash", "sh"}
"""Programs into which a person types."""


def send(argv: Sequence[str], line: CommandLine | None, name: str | None = None, written: Iterable[str] = ()) -> int:
    """Run ``argv`` in the VM, started when it is not up, and return its exit code.

    ``line`` is its parsed command line when it is one of rocelab; ``name`` is the VM's, by default that of the
    environment. The files of ``line`` are taken along or brought back, and ``written`` is brought back.
    """
    state = state_folder(os.environ.get("ROCELAB_VM_NAME", "") if name is None else name)
    files = line.files(argv) if line else []
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
    """Whether a second of a command has to last a second for its user: see ``command_registry.Attended``."""
    if line:
        return line.attended(terminal=on_terminal())
    return on_terminal() and not _SHELLS.isdisjoint(argv)


def _report_wait(line: CommandLine, running: RunningVm, seconds: float) -> None:
    """Print how long a command took by the user's clock, because its own figures are in virtual time."""
    if running.time is Time.VIRTUAL and seconds >= _LONG and not line.entry.open_ended:
        print_progress(f"took {seconds:.0f} s by your clock; its own figures are in virtual time")
