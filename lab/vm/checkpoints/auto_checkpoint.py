"""Checkpoints that nobody asked for: of the booted guest, and of one in which `up` built a fabric, and no more.

Only in virtual time, whose guests do not notice that they stood still. ``ROCELAB_CHECKPOINTS=0`` switches them off.
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
"""Tells `up` in the guest that the fabric is there."""
_BOOTED: Final = "booted"
_DECLARES: Final = b"faults"
"""Of a topology that may declare some: they run by the clock, from when `up` has built it."""


@dataclass(frozen=True)
class Touch:
    """A command that runs in a VM."""

    work: str
    token: str
    """Stands in ``StateFolder.untouched`` until another command runs too; "" when the VM is not to be kept after."""
    done: bool
    """The VM continued from a checkpoint in which the work is done."""


def work_of(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What ``command``, a `rocelab up`, does to a guest that has just booted: a hash of its words and files.

    "" when no checkpoint can replace it, because its topology may declare faults.
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
    """A checkpoint that has done ``work``, for a running VM that has booted and done nothing."""
    if not work or not _wanted(guest) or _read(state) != _name(guest, _BOOTED):
        return None
    return checkpoint.find(_name(guest, work))


def resumed(guest: Guest, work: str, state: StateFolder, progress: Progress) -> RunningVm | None:
    """A VM from the checkpoint that has done ``work``, or has booted; None when there is none that does it."""
    if not _wanted(guest):
        return None
    for name in [_name(guest, work), _name(guest, _BOOTED)] if work else [_name(guest, _BOOTED)]:
        if found := checkpoint.find(name):
            try:
                running = resume(guest, found, state, progress)
            except OperationFailed as error:
                if isinstance(error.__cause__, OSError):  # it is not to blame: the disk is full, or it was pruned
                    progress(f"checkpoint {name} is not used: {error}")
                else:
                    progress(f"checkpoint {name} is removed: {error}")
                    found.remove()
                continue
            state.untouched.write_text(name, encoding="ascii")
            return running
    return None


def keep_booted(guest: Guest, state: StateFolder, progress: Progress) -> None:
    """Keep the guest that has just booted, when its resident rocelab has loaded too."""
    if not _wanted(guest) or not checkpoint.has_room():
        return
    with alone(state) as port:
        guest_command.run(state, port, "rocelab", "--version")
    name = _name(guest, _BOOTED)
    # There may be one of another VM that has booted meanwhile.
    if checkpoint.find(name) or _save(guest, name, "booted", state, progress):
        state.untouched.write_text(name, encoding="ascii")


def touch(guest: Guest, work: str, state: StateFolder) -> Touch:
    """A command that does ``work`` is about to run: the VM is no longer what it was."""
    was = _read(state)
    if not work or was != _name(guest, _BOOTED):
        state.untouched.unlink(missing_ok=True)
        return Touch(work, "", done=bool(work) and was == _name(guest, work))
    token = os.urandom(8).hex()
    state.untouched.write_text(token, encoding="ascii")
    return Touch(work, token, done=False)


def keep(guest: Guest, touch: Touch, state: StateFolder, progress: Progress) -> None:
    """Keep the guest that has done the work since ``touch``, and nothing else."""
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
