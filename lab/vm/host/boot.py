"""Start a VM: boot it, or resume it from a checkpoint."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.errors import CommandFailed, OperationFailed
from lab.kernel.process import files, locks, process
from lab.vm.checkpoints import migration
from lab.vm.host.console import last_words
from lab.vm.host.qemu import READY_MARK, Accel, Guest, guest_argv
from lab.vm.host.vm_state import RunningVm, process_start
from lab.vm.host.vm_teardown import clear

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.vm.checkpoints.checkpoint import Checkpoint
    from lab.vm.host.vm_state import StateFolder
    from lab.vm.image.recipe import Image

    Progress = Callable[[str], None]

BOOT_TIMEOUT: Final = 120.0
KVM_BOOT_TIMEOUT: Final = 30.0
"""A KVM guest that takes longer than this hangs; software emulation is used instead."""
_POLL: Final = 0.02


class NotStarted(OperationFailed):
    """QEMU did not start, which says nothing about KVM."""


def boot(guest: Guest, state: StateFolder, progress: Progress) -> RunningVm:
    """Start QEMU, wait until the guest answers, and write the record."""
    cpus = "1 CPU" if guest.cpus == 1 else f"{guest.cpus} CPUs"
    progress(f"booting with {cpus} and {guest.memory_mib} MiB ({guest.accel}, {guest.time} time)")

    def ready() -> None:
        _wait_ready(state, KVM_BOOT_TIMEOUT if guest.accel is Accel.KVM else BOOT_TIMEOUT)

    return _come_up(guest, state, ready)


def resume(guest: Guest, checkpoint: Checkpoint, state: StateFolder, progress: Progress) -> RunningVm:
    """Start as ``boot``, but from a checkpoint that fits ``guest``.

    Raises OperationFailed, caused by an OSError if the checkpoint was pruned.
    """
    progress(f"continuing from checkpoint {checkpoint.name}: {checkpoint.about().what}")
    try:
        checkpoint.note_use()
        with migration.disk_of(checkpoint) as descriptors:
            continued = replace(guest, resumes=descriptors)
            return _come_up(continued, state, lambda: migration.resume(state, checkpoint), checkpoint.name)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        raise OperationFailed(
            f"the VM cannot continue from checkpoint {checkpoint.name}: {said}", "rocelab vm checkpoint ls; df"
        ) from error


def _come_up(guest: Guest, state: StateFolder, ready: Callable[[], None], checkpoint: str = "") -> RunningVm:
    began = time.monotonic()
    state.console.unlink(missing_ok=True)
    try:
        _launch(guest)
        pid = int(state.pid_file.read_text(encoding="ascii"))
        pid_started = process_start(pid)
        ready()
        running = RunningVm(
            pid=pid,
            pid_started=pid_started or 0,
            accel=guest.accel,
            time=guest.time,
            cpus=guest.cpus,
            memory_mib=guest.memory_mib,
            image=guest.image,
            kernel=_kernel_release(guest.image),
            shares=guest.shares,
            started=time.time(),
            boot_seconds=round(time.monotonic() - began, 2),
            checkpoint=checkpoint,
            tsc_khz=guest.tsc_khz,
            user=guest.user,
        )
        with files.replaced(state.record) as fresh:
            fresh.write_text(running.to_json(), encoding="utf-8")
    except BaseException:
        clear(state)
        raise
    return running


def _launch(guest: Guest) -> None:
    """Start QEMU in the background; returns when its devices are set up.

    QEMU holds a lock on its image as long as it lives, so that ``image_build.prune`` keeps the image, wherever the
    VM's state folder is.
    """
    try:
        with locks.sharing(guest.image.manifest) as lease:
            process.run(guest_argv(guest), keep=(*guest.resumes, lease))
    except CommandFailed as error:
        complaint = error.stderr.strip().splitlines()[-1:]
        raise NotStarted(f"QEMU does not start: {' '.join(complaint)}", "rocelab vm build --force") from error


def _wait_ready(state: StateFolder, timeout: float) -> None:
    """Wait until the console reports that the guest is ready. OperationFailed contains the console's last lines."""
    deadline = time.monotonic() + timeout
    pid = int(state.pid_file.read_text(encoding="ascii"))
    started = process_start(pid)
    while READY_MARK not in said(state):
        ended = started is None or process_start(pid) != started
        if ended or time.monotonic() > deadline:
            what = "ended while booting" if ended else f"is not up after {timeout:g} s"
            raise OperationFailed(f"the VM {what}\n{last_words(said(state))}", f"see {state.console}")
        time.sleep(_POLL)


def _kernel_release(image: Image) -> str:
    return str(json.loads(image.manifest.read_text(encoding="utf-8"))["kernel"])


def said(state: StateFolder) -> str:
    """Return the guest's output on its serial console."""
    try:
        return state.console.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
