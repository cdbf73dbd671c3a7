"""The life of a VM: started when needed, ended without a trace."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import CommandFailed, OperationFailed, UsageError
from lab.kernel import process
from lab.vm import kvm, tsc
from lab.vm.build import build
from lab.vm.console import fault, last_words
from lab.vm.qemu import READY_MARK, Accel, Guest, Share, Time, guest_argv
from lab.vm.recipe import Image, checkout, current_recipe
from lab.vm.state import Running, StateFolder, process_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str], None]

MEMORY_MIB = 4096
BOOT_TIMEOUT = 120.0
KVM_BOOT_TIMEOUT = 30.0
"""A KVM guest that takes longer than this hangs; software emulation takes its place."""

_FAREWELL = 5.0
"""Seconds that a killed QEMU may take to end."""
_POLL = 0.02


@dataclass(frozen=True)
class Wanted:
    """What the caller asks of the VM; None leaves the choice to the host's size."""

    cpus: int | None = None
    memory_mib: int | None = None
    share: Path | None = None
    time: Time | None = None
    """By default the host's where KVM works, and virtual elsewhere."""


class NotStarted(OperationFailed):
    """QEMU did not start: that says nothing about KVM."""


def up(state: StateFolder, wanted: Wanted, progress: Progress) -> Running:
    """The VM that runs, started (and its image built) when there is none.

    A VM that runs already is returned as it is; UsageError when it is not what ``wanted`` asks for.
    """
    if wanted.time is Time.VIRTUAL and (wanted.cpus or 1) > 1:
        raise UsageError(f"virtual time has one CPU, not {wanted.cpus}", "leave --cpus out, or use --time host")
    running = state.running()
    if running is None:
        image = build(progress)
        state.create()
        with _locked(state, progress):
            running = state.running() or _start(image, wanted, state, progress)
    if not is_shared(running, checkout()):
        raise UsageError(f"the VM is up and does not share {checkout()}", "rocelab vm down, then up again")
    if wanted.share and not is_shared(running, wanted.share):
        raise UsageError(f"the VM is up and does not share {wanted.share}", "rocelab vm down, then up again")
    if wanted.time not in {None, running.time}:
        raise UsageError(f"the VM is up in {running.time} time", "rocelab vm down, then up again")
    return running


def down(state: StateFolder) -> bool:
    """End the VM and remove its traces; False when there was none."""
    if not state.path.is_dir():
        return False
    with _locked(state, lambda _line: None):
        state.console.unlink(missing_ok=True)
        return _clear(state)


def last_fault(state: StateFolder) -> str:
    """What the kernel of the VM that ended last said of it; "" when it said nothing."""
    return fault(_console(state))


def has_ended(running: Running) -> bool:
    """Whether the VM, whose connection was lost, is gone: QEMU outlives it while its memory is given back."""
    try:
        handle = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return True
    try:
        return not running.alive() or bool(select.select([handle], [], [], _FAREWELL)[0])
    finally:
        os.close(handle)


def is_shared(running: Running, path: Path) -> bool:
    """Whether the guest sees the host folder ``path`` at the same place."""
    return any(path == share.path or share.path in path.parents for share in running.shares)


def _start(image: Image, wanted: Wanted, state: StateFolder, progress: Progress) -> Running:
    _clear(state)
    arch = current_recipe().arch
    process.find_tool(arch.qemu, arch.qemu_package)
    accel = Accel.TCG
    if wanted.time is not Time.VIRTUAL:
        if kvm.read_verdict(state) is None:
            progress("does KVM run guests here?")
        accel = kvm.choose_accel(arch, image, state)
    lives_in = wanted.time or (Time.HOST if accel is Accel.KVM or (wanted.cpus or 1) > 1 else Time.VIRTUAL)
    guest = Guest(
        arch=arch,
        image=image,
        accel=accel,
        time=lives_in,
        cpus=1 if lives_in is Time.VIRTUAL else wanted.cpus or min(4, max(2, os.cpu_count() or 2)),
        memory_mib=wanted.memory_mib or _default_memory(),
        shares=_shares(image, wanted.share),
        tsc_khz=tsc.guest_khz(arch, lives_in),
        console=state.console,
        pid_file=state.pid_file,
        ports=state.ports,
        monitor=state.monitor,
    )
    try:
        return _boot(guest, state, progress)
    except NotStarted:
        raise
    except OperationFailed:
        if guest.accel is Accel.TCG:
            raise
        kvm.write_verdict(state, works=False)
        progress("the guest hangs under KVM: using software emulation")
        return _boot(replace(guest, accel=Accel.TCG), state, progress)


def _boot(guest: Guest, state: StateFolder, progress: Progress) -> Running:
    """Start QEMU, wait until the guest answers, write the record."""
    cpus = "1 CPU" if guest.cpus == 1 else f"{guest.cpus} CPUs"
    progress(f"booting with {cpus} and {guest.memory_mib} MiB ({guest.accel}, {guest.time} time)")
    began = time.monotonic()
    state.console.unlink(missing_ok=True)
    try:
        _launch(guest)
        pid = int(state.pid_file.read_text(encoding="ascii"))
        pid_started = process_start(pid)
        _wait_ready(pid, state, KVM_BOOT_TIMEOUT if guest.accel is Accel.KVM else BOOT_TIMEOUT)
        running = Running(
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
        )
        _write_whole(state.record, running.to_json())
    except BaseException:
        _clear(state)
        raise
    return running


def _launch(guest: Guest) -> None:
    """Start QEMU in the background; it returns when its devices are set up."""
    try:
        process.run(guest_argv(guest))
    except CommandFailed as error:
        said = error.stderr.strip().splitlines()[-1:]
        raise NotStarted(f"QEMU does not start: {' '.join(said)}", "rocelab vm build --force") from error


def _wait_ready(pid: int, state: StateFolder, timeout: float) -> None:
    """Until the console says that the guest is ready; OperationFailed with its last lines when it will not be."""
    deadline = time.monotonic() + timeout
    started = process_start(pid)
    while READY_MARK not in _console(state):
        ended = started is None or process_start(pid) != started
        if ended or time.monotonic() > deadline:
            what = "ended while booting" if ended else f"is not up after {timeout:g} s"
            raise OperationFailed(f"the VM {what}\n{last_words(_console(state))}", f"see {state.console}")
        time.sleep(_POLL)


def _clear(state: StateFolder) -> bool:
    """End whatever VM the folder tells of, recorded or half-started, and remove what it left."""
    recorded = _recorded(state)
    ended = False
    for pid, started in recorded:
        ended = _end(pid, started) or ended
    for path in (state.record, state.pid_file, state.monitor, *state.ports):
        path.unlink(missing_ok=True)
    return ended


def _recorded(state: StateFolder) -> list[tuple[int, int]]:
    """Pids with start times: of the record, and of a QEMU that was started and not recorded any more."""
    found = []
    with contextlib.suppress(FileNotFoundError, OperationFailed):
        running = Running.from_json(state.record.read_text(encoding="utf-8"))
        found.append((running.pid, running.pid_started))
    with contextlib.suppress(FileNotFoundError, ValueError):
        pid = int(state.pid_file.read_text(encoding="ascii"))
        started = process_start(pid)
        if started is not None and _is_ours(pid, state):
            found.append((pid, started))
    return found


def _is_ours(pid: int, state: StateFolder) -> bool:
    """Whether the process names this folder's pid file on its command line, as our QEMU does."""
    try:
        return str(state.pid_file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _end(pid: int, started: int) -> bool:
    """End one process, identified by pid and start time, and wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if process_start(pid) != started:
            return False
        # Nothing is lost: the disk is a throw-away view, and shared folders are written through.
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
        return True
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(state: StateFolder, progress: Progress) -> Iterator[None]:
    with state.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another command starts or stops the VM: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _shares(image: Image, extra: Path | None) -> tuple[Share, ...]:
    root = checkout()
    shares = [Share("checkout", root), Share("cache", image.guest_cache)]
    if extra is not None and extra != root and root not in extra.parents:
        shares.append(Share("extra", extra))
    return tuple(shares)


def _default_memory() -> int:
    """4 GiB, or half of the host's memory when it has less than eight."""
    host_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(MEMORY_MIB, host_mib // 2)


def _kernel_release(image: Image) -> str:
    return str(json.loads(image.manifest.read_text(encoding="utf-8"))["kernel"])


def _console(state: StateFolder) -> str:
    try:
        return state.console.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old or the new one, never a part."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
