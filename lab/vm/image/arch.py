"""The differences between the processor architectures, in one table."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import EnvironmentLacks

if TYPE_CHECKING:
    from collections.abc import Callable

_GLIBC_OF_TRIXIE = 41


@dataclass(frozen=True)
class Arch:
    """One architecture: its names in Python, Debian, QEMU and pip, and its console device."""

    machine: str
    """The kernel's name: ``x86_64``."""
    debian: str
    qemu: str
    qemu_package: str
    qemu_machine: str
    emulated_cpu: str
    """QEMU's CPU model for emulation."""
    console: str
    nop: bytes
    """The machine code of NOP."""
    back: Callable[[int], bytes]
    """Returns the instruction that jumps back over this number of bytes."""

    @property
    def pip_platforms(self) -> tuple[str, ...]:
        """Platform tags of wheels that run in the guest, in order of preference."""
        newest = [f"manylinux_2_{minor}_{self.machine}" for minor in range(_GLIBC_OF_TRIXIE, 16, -1)]
        return (*newest, f"manylinux2014_{self.machine}", f"linux_{self.machine}")

    def idle_loop(self, count: int) -> bytes:
        """Return machine code of an infinite loop of ``count`` NOPs."""
        nothing = self.nop * count
        return nothing + self.back(len(nothing))


def _x86_back(octets: int) -> bytes:
    """Return JMP rel32; its offset counts from the instruction's end (Intel SDM volume 2A)."""
    return b"\xe9" + struct.pack("<i", -octets - 5)


def _arm_back(octets: int) -> bytes:
    """Return B with a 26-bit offset in words (Arm ARM, C6.2)."""
    return struct.pack("<I", 0x14000000 | (-octets // 4) & 0x3FFFFFF)


ARCHES = {
    "x86_64": Arch(
        machine="x86_64",
        debian="amd64",
        qemu="qemu-system-x86_64",
        qemu_package="qemu-system-x86",
        qemu_machine="q35",
        # QEMU 7.2, the first with AVX, emulates some of it wrong: NumPy's argsort ended in a protection fault.
        # With erms or fsrm, kernel and glibc copy by `rep movsb`, which QEMU executes byte by byte.
        # la57 is a fifth level of page tables for each miss of QEMU's TLB. With smap, each copy to or from a program
        # ends two translated blocks. pku is a register more at each switch of tasks. Nothing here needs them.
        emulated_cpu="max,avx=off,avx2=off,f16c=off,fma=off,vaes=off,erms=off,fsrm=off,la57=off,smap=off,pku=off",
        console="ttyS0",
        nop=b"\x90",
        back=_x86_back,
    ),
    "aarch64": Arch(
        machine="aarch64",
        debian="arm64",
        qemu="qemu-system-aarch64",
        qemu_package="qemu-system-arm",
        qemu_machine="virt,gic-version=max",
        emulated_cpu="max",
        console="ttyAMA0",
        nop=bytes.fromhex("1f2003d5"),
        back=_arm_back,
    ),
}


def host_arch(machine: str = "") -> Arch:
    """Return the entry of ``machine``, by default this host's. Raises EnvironmentLacks if there is none."""
    machine = machine or platform.machine()
    if machine not in ARCHES:
        raise EnvironmentLacks(f"no VM for processor {machine}", f"use a host with {' or '.join(ARCHES)}")
    return ARCHES[machine]
