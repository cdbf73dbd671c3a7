"""Automatic checkpoints: of the booted guest, and of a guest in which only `up` has run and built a fabric.

They exist only in virtual time, in which a guest does not notice the pause. ``ROCELAB_CHECKPOINTS=0`` disables them.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError
from lab.vm.calls import guest_command
from lab.vm.calls.channel import alone
from lab.vm.checkpoints import checkpoint, migration
from lab.vm.host.boot import resume
from lab.vm.host.qemu import Time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.vm.checkpoints.checkpoint import Checkpoint
    from lab.vm.host.qemu import Guest
    from lab.vm.host.vm_state import RunningVm, StateFolder

    Progress = Callable[[str], None]

RESTORED: Final = "--restored"
"""Option of `up` in the guest: the fabric already exists."""
_BOOTED: Final = "booted"
_DECLARES: Final = b"faults"
"""Text of a topology that may declare faults. These run by the clock from the moment `up` has built the fabric."""


@dataclass(frozen=True)
class Touch:
    """A command that runs in a VM, and its effect on automatic checkpoints."""

    work: str
    token: str
    """Content of ``StateFolder.untouched`` until another command runs, too; "" if the VM is not saved afterwards."""
    done: bool
    """Whether the VM resumed from a checkpoint that already contains the work."""


def work_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return an id of the work of ``command``, a `rocelab up`, on a booted guest: a hash of its words and files.

    Returns "" if no checkpoint can replace it, because its topology may declare faults.
    """
    words = [word for word in command if word != "--json"]
    digest = hashlib.sha256(repr(words).encode())
    for word in words[1:]:
        if (path := Path(word)).is_file():
            text = path.read_bytes()
            if _DECLARES in text:
                return ""
            digest.update(text)
    own = {name: environment[name] for name in sorted(environment) if name.startswith("ROCELAB_")}
    for name in (checkpoint.SETTING, "ROCELAB_VM", "ROCELAB_VM_NAME", "ROCELAB_VM_STATE"):
        own.pop(name, None)
    digest.update(repr(own).encode())
    return digest.hexdigest()


def further(guest: Guest, work: str, state: StateFolder) -> Checkpoint | None:
    """Return a checkpoint that contains ``work``, for a running VM that has only booted; None if there is none."""
    if not work or not _wanted(guest) or _read(state) != _name(guest, _BOOTED):
        return None
    return checkpoint.find(_name(guest, work))


def resumed(guest: Guest, work: str, state: StateFolder, progress: Progress) -> RunningVm | None:
    """Resume from the checkpoint that contains ``work``, or else from a booted one. Return None without either."""
    if not _wanted(guest):
        return None
    for name in [_name(guest, work), _name(guest, _BOOTED)] if work else [_name(guest, _BOOTED)]:
        if found := checkpoint.find(name):
            try:
                running = resume(guest, found, state, progress)
            except OperationFailed as error:
                if _is_innocent(error):
                    progress(f"checkpoint {name} is not used: {error}")
                else:
                    progress(f"checkpoint {name} is removed: {error}")
                    found.remove()
                continue
            state.untouched.write_text(name, encoding="ascii")
            return running
    return None


def _is_innocent(error: OperationFailed) -> bool:
    """Return whether a checkpoint is not the reason: the disk is full, QEMU is slow, or another command pruned it.

    QEMU ends if it cannot read the state of a VM.
    """
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, ConnectionError)


def keep_booted(guest: Guest, state: StateFolder, progress: Progress) -> None:
    """Save the guest that has just booted, once its resident rocelab has loaded, too."""
    if not _wanted(guest) or not checkpoint.has_room():
        return
    with alone(state) as port:
        guest_command.run(state, port, "rocelab", "--version")
    name = _name(guest, _BOOTED)
    # Another VM may have booted meanwhile and saved the same checkpoint.
    if checkpoint.find(name) or _save(guest, name, "booted", state, progress):
        state.untouched.write_text(name, encoding="ascii")


def touch(guest: Guest, work: str, state: StateFolder) -> Touch:
    """Record that a command with ``work`` is about to change the VM."""
    was = _read(state)
    if not work or was != _name(guest, _BOOTED):
        state.untouched.unlink(missing_ok=True)
        return Touch(work, "", done=bool(work) and was == _name(guest, work))
    token = os.urandom(8).hex()
    state.untouched.write_text(token, encoding="ascii")
    return Touch(work, token, done=False)


def keep(guest: Guest, touch: Touch, state: StateFolder, progress: Progress) -> None:
    """Save the guest if it has done only the work since ``touch``."""
    name = _name(guest, touch.work)
    if touch.token and _read(state) == touch.token and checkpoint.has_room() and not checkpoint.find(name):
        _save(guest, name, "a fabric that `up` has built", state, progress)
    state.untouched.unlink(missing_ok=True)


def _read(state: StateFolder) -> str:
    try:
        return state.untouched.read_text(encoding="ascii")
    except FileNotFoundError:
        return ""


def _save(guest: Guest, name: str, what: str, state: StateFolder, progress: Progress) -> bool:
    about = checkpoint.now(what, guest, automatic=True)
    try:
        checkpoint.save(name, about, lambda into: migration.save(state, guest.image, into))
    except (OperationFailed, UsageError) as error:
        progress(f"no checkpoint of this: {error}")
        return False
    return True


def _wanted(guest: Guest) -> bool:
    return guest.time is Time.VIRTUAL and os.environ.get(checkpoint.SETTING) != checkpoint.OFF


def _name(guest: Guest, work: str) -> str:
    digest = hashlib.sha256(f"{checkpoint.identity(guest)} {work}".encode()).hexdigest()
    return f"{'booted' if work == _BOOTED else 'up'}-{digest[:16]}"
