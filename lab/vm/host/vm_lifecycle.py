"""The lifecycle of a VM: start on demand, by boot or from a checkpoint, and stop."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import locks, process
from lab.shipped import is_installed
from lab.vm.checkpoints import auto_checkpoint, checkpoint, migration
from lab.vm.host import guest_tsc, isolation, kvm
from lab.vm.host.boot import NotStarted, boot, resume, said
from lab.vm.host.console import fault
from lab.vm.host.qemu import CACHE, Accel, Guest, Share, Time
from lab.vm.host.vm_teardown import clear
from lab.vm.image import host_bytecode
from lab.vm.image.recipe import checkout, current_recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lab.vm.host.vm_state import RunningVm, StateFolder
    from lab.vm.image.recipe import Image

    Progress = Callable[[str], None]

MEMORY_MIB: Final = 4096


@dataclass(frozen=True)
class Wanted:
    """The caller's requirements; None leaves the choice to rocelab, which depends on the host."""

    cpus: int | None = None
    memory_mib: int | None = None
    share: Path | None = None
    time: Time | None = None
    """By default HOST if KVM works, and VIRTUAL otherwise."""
    checkpoint: str = ""
    """Name of the checkpoint to resume from; "" for any."""
    work: str = ""
    """The work of its first command, from ``auto_checkpoint.work_of``: a checkpoint may already contain it."""
    extra: str = ""
    """An addition to the image, one of ``recipe.EXTRAS``; a running VM is checked for it only if it is set."""


def up(state: StateFolder, wanted: Wanted, progress: Progress) -> RunningVm:
    """Return the running VM; without one, start it, and build its image if needed.

    A running VM is returned as it is. Raises UsageError if it does not meet ``wanted``.
    """
    if wanted.time is Time.VIRTUAL and (wanted.cpus or 1) > 1:
        raise UsageError(f"virtual time has one CPU, not {wanted.cpus}", "leave --cpus out, or use --time host")
    running = state.running()
    if running is None or wanted.work or state.frozen.exists():
        image = running.image if running else _built(wanted, progress)
        state.create()
        with locked(state, progress):
            running = _started(image, wanted, state, progress)
    _require(running, wanted)
    return running


def _built(wanted: Wanted, progress: Progress) -> Image:
    from lab.vm.image.image_build import build  # noqa: PLC0415 - slow to import, and needed only to start a VM

    return build(progress, extra=wanted.extra)


def _started(image: Image, wanted: Wanted, state: StateFolder, progress: Progress) -> RunningVm:
    """Return the running VM: started, thawed, or replaced by a checkpoint that already contains the work."""
    running = state.running()
    if running is None:
        return _start(_planned(image, wanted, state, progress), wanted, state, progress)
    if state.frozen.exists():
        migration.thaw(state)
    further = auto_checkpoint.further(guest_of(running, state), wanted.work, state)
    if further is None:
        return running
    clear(state)
    return _start(guest_of(running, state), wanted, state, progress)


def _require(running: RunningVm, wanted: Wanted) -> None:
    remedy = "rocelab vm down, then up again"
    if not is_shared(running, checkout()):
        raise UsageError(
            f"the VM is up and shares another rocelab than {checkout()}",
            "rocelab vm down if it is yours, or set ROCELAB_VM_NAME to a name for one of your own",
        )
    if wanted.share and not is_writable(running, wanted.share):
        raise UsageError(f"the VM is up and does not share {wanted.share}", remedy)
    if wanted.extra and running.image.hash != current_recipe(wanted.extra).hash:
        raise UsageError(f"the VM is up without {wanted.extra}", remedy)
    if wanted.time not in {None, running.time}:
        raise UsageError(f"the VM is up in {running.time} time", remedy)


def guest_of(running: RunningVm, state: StateFolder) -> Guest:
    """Return the settings with which the running guest was started."""
    return Guest(
        arch=current_recipe().arch,
        image=running.image,
        accel=running.accel,
        time=running.time,
        cpus=running.cpus,
        memory_mib=running.memory_mib,
        shares=running.shares,
        tsc_khz=running.tsc_khz,
        console=state.console,
        pid_file=state.pid_file,
        ports=state.ports,
        monitor=state.monitor,
        user=running.user,
    )


def down(state: StateFolder) -> bool:
    """Stop the VM and remove its files. Return False if there was none."""
    if not state.path.is_dir():
        return False
    with locked(state, lambda _line: None):
        state.console.unlink(missing_ok=True)
        return clear(state)


def last_fault(state: StateFolder) -> str:
    """Return the kernel fault of the VM that ended last; "" without one."""
    return fault(said(state))


def is_shared(running: RunningVm, path: Path) -> bool:
    """Return whether the guest sees the host folder ``path`` at the same path."""
    return _share_of(running.shares, path) is not None


def is_writable(running: RunningVm, path: Path) -> bool:
    """Return whether the guest may write to the host folder ``path``, which it sees at the same path."""
    share = _share_of(running.shares, path)
    return share is not None and share.writable


def _share_of(shares: Iterable[Share], path: Path) -> Share | None:
    """Return the innermost share of a path, which the guest mounts over the others."""
    over = [share for share in shares if path.is_relative_to(share.path)]
    return max(over, key=lambda share: len(share.path.parts), default=None)


def _planned(image: Image, wanted: Wanted, state: StateFolder, progress: Progress) -> Guest:
    """Return the settings of a guest that meets ``wanted`` on this host."""
    arch = current_recipe().arch
    process.find_tool(arch.qemu, arch.qemu_package)
    accel = Accel.TCG
    if wanted.time is not Time.VIRTUAL:
        if kvm.read_verdict(state) is None:
            progress("does KVM run guests here?")
        accel = kvm.choose_accel(arch, image, state)
    lives_in = wanted.time or (Time.HOST if accel is Accel.KVM or (wanted.cpus or 1) > 1 else Time.VIRTUAL)
    shares = _shares(wanted.share)
    user = isolation.user_for(share.path for share in shares)
    return Guest(
        arch=arch,
        image=image,
        accel=accel,
        time=lives_in,
        cpus=1 if lives_in is Time.VIRTUAL else wanted.cpus or min(4, max(2, os.cpu_count() or 2)),
        memory_mib=wanted.memory_mib or _default_memory(),
        shares=(*shares, Share(CACHE, isolation.cache_for(image.guest_cache, user), writable=True)),
        tsc_khz=guest_tsc.guest_khz(arch, lives_in),
        console=state.console,
        pid_file=state.pid_file,
        ports=state.ports,
        monitor=state.monitor,
        user=user,
    )


def _start(guest: Guest, wanted: Wanted, state: StateFolder, progress: Progress) -> RunningVm:
    clear(state)
    if _compiles_slowly(guest):
        host_bytecode.compile_modules(guest.image, guest.arch, checkout())
    if wanted.checkpoint:
        found = checkpoint.required(wanted.checkpoint)
        found.require_fit(guest)
        return resume(guest, found, state, progress)
    if running := auto_checkpoint.resumed(guest, wanted.work, state, progress):
        return running
    try:
        running = boot(guest, state, progress)
    except NotStarted:
        raise
    except OperationFailed:
        if guest.accel is Accel.TCG:
            raise
        progress("the guest did not come up under KVM: using software emulation")
        kvm.write_verdict(state, works=kvm.probe(guest.arch, guest.image, Accel.KVM, kvm.PROBE_TIMEOUT))
        return boot(replace(guest, accel=Accel.TCG), state, progress)
    auto_checkpoint.keep_booted(guest, state, progress)
    return running


def _compiles_slowly(guest: Guest) -> bool:
    """Return whether the host has to compile for the guest, and may write to the guest's cache.

    The cache can contain links of the guest if they are not mapped. The cache of another user is that user's alone.
    """
    mapped = isolation.security_of(guest.image.guest_cache) == isolation.MAPPED
    return guest.accel is Accel.TCG and guest.user is None and mapped


def touch(running: RunningVm, work: str, state: StateFolder, progress: Progress) -> auto_checkpoint.Touch:
    """Record that a command is about to run in the VM and change it."""
    with locked(state, progress):
        return auto_checkpoint.touch(guest_of(running, state), work, state)


def keep(touch: auto_checkpoint.Touch, state: StateFolder, progress: Progress) -> None:
    """Save the VM if the command of ``touch`` was the only one in it, so that the next VM can skip its work."""
    if touch.token:
        with locked(state, progress):
            if running := state.running():
                auto_checkpoint.keep(guest_of(running, state), touch, state, progress)


@contextlib.contextmanager
def locked(state: StateFolder, progress: Progress) -> Iterator[None]:
    """Keep other commands from starting, stopping or saving the VM."""
    with locks.held(state.lock, make=True, waiting=lambda holder: progress(f"waiting for {holder}")):
        yield


def _shares(extra: Path | None) -> tuple[Share, ...]:
    """Return the shared folders. UsageError if the user shares the checkout itself, whose code the host runs, too.

    Recordings are kept in recordings/ of the checkout, or of the current folder if rocelab is installed.
    """
    root = checkout()
    if extra == root:
        raise UsageError(f"the VM reads {root}, and may not write there", "share a folder in it, or another")
    shares = [Share("checkout", root)]
    if kept := isolation.folder_in(Path.cwd() if is_installed() else root, "recordings"):
        shares.append(Share("recordings", kept, writable=True))
    if extra is not None and not (kept and extra.is_relative_to(kept)):
        shares.append(Share("extra", extra, writable=True))
    return tuple(shares)


def _default_memory() -> int:
    """Return 4 GiB in MiB, or half of the host's memory if it has less than eight."""
    host_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(MEMORY_MIB, host_mib // 2)
