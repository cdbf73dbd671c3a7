"""Whether KVM can run guests here: tested with a probe guest, once per boot of the host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import OperationFailed
from lab.kernel.process import process
from lab.vm.host.qemu import PROBE_MARK, Accel, probe_argv

if TYPE_CHECKING:
    from lab.vm.host.vm_state import StateFolder
    from lab.vm.image.arch import Arch
    from lab.vm.image.recipe import Image

PROBE_TIMEOUT = 5.0
"""Seconds. With a working KVM the probe takes less than one."""


def choose_accel(arch: Arch, image: Image, state: StateFolder) -> Accel:
    """Return KVM if a probe guest ran to its end under it, and software emulation otherwise."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return Accel.TCG
    known = read_verdict(state)
    if known is None:
        known = probe(arch, image, Accel.KVM, PROBE_TIMEOUT)
        write_verdict(state, works=known)
    return Accel.KVM if known else Accel.TCG


def probe(arch: Arch, image: Image, accel: Accel, timeout: float) -> bool:
    """Return whether a guest without a disk reaches its first program within ``timeout`` seconds."""
    try:
        done = process.run(probe_argv(arch, image, accel), timeout=timeout, check=False)
    except OperationFailed:
        return False
    return done.returncode == 0 and PROBE_MARK in done.stdout


def read_verdict(state: StateFolder) -> bool | None:
    """Return the result of an earlier probe in this boot of the host, or None."""
    try:
        verdict = json.loads(state.kvm_verdict.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return bool(verdict["works"]) if verdict.get("boot") == _boot_id() else None


def write_verdict(state: StateFolder, *, works: bool) -> None:
    """Record for the rest of this boot whether KVM works."""
    state.kvm_verdict.write_text(json.dumps({"boot": _boot_id(), "works": works}), encoding="ascii")


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
