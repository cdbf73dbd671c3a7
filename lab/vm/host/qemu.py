"""QEMU's argument list for a guest."""

from __future__ import annotations

import base64
import functools
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lab.kernel.process import process, time_source
from lab.vm.calls.frames import PORT_NAME
from lab.vm.host import isolation

if TYPE_CHECKING:
    from pathlib import Path

    from lab.vm.image.arch import Arch
    from lab.vm.image.recipe import Image

READY_MARK = "rocelab: ready"
"""The line of the guest's agent on the console when it accepts calls (lab/vm/guest/agent.py)."""
PROBE_MARK = "rocelab: probe passed"
"""The line of a probe guest before it ends (scripts/guest/initrd-init)."""

CACHE = "cache"
"""Tag of the share with the guests' caches and the files of calls."""
DISK = "disk"
"""Name of the disk in the monitor."""


class Accel(StrEnum):
    """The accelerator, which runs the guest's instructions."""

    KVM = "kvm"
    TCG = "tcg"


class Time(StrEnum):
    """The kind of time in a guest: real or virtual."""

    HOST = time_source.HOST
    """The host's clocks: a guest that gets no CPU for a while is late."""
    VIRTUAL = time_source.VIRTUAL
    """QEMU's count of instructions, 1 ns each: a busy host makes a run longer, but never different."""


@dataclass(frozen=True)
class Share:
    """A host folder in the guest: at the same path, and where the guest's init mounts it by its tag."""

    tag: str
    path: Path
    writable: bool = False


@dataclass(frozen=True)
class Guest:
    """The settings of a guest to start."""

    arch: Arch
    image: Image
    accel: Accel
    time: Time
    cpus: int
    """One in virtual time, whose instruction counter is shared by all CPUs."""
    memory_mib: int
    shares: tuple[Share, ...]
    tsc_khz: int | None
    """Frequency of an emulated x86 guest's TSC: the host's, or that of virtual time. None if unknown."""
    console: Path
    """File that receives the serial console."""
    pid_file: Path
    ports: tuple[Path, ...]
    """Sockets of the ports for calls (lab/vm/calls/channel.py)."""
    monitor: Path
    """Socket of QEMU's monitor."""
    user: tuple[int, int] | None = None
    """User and group that QEMU switches to when everything is open; None if it keeps its user."""
    resumes: tuple[int, ...] = ()
    """Descriptors for writing and reading the disk of a checkpoint to resume from; empty for a boot."""


def guest_argv(guest: Guest) -> list[str]:
    """Return the arguments that start ``guest`` in the background, with a temporary copy-on-write layer as its disk.

    The guest has no network. Its only inputs are the ports, whose sockets are in a folder of the user alone. A kernel
    fault ends it; otherwise it would continue with half of its locks held.
    """
    kernel_words = ["quiet", "loglevel=3", "oops=panic", "panic=-1", "mitigations=off", *_emulation_words(guest)]
    kernel_words.append(time_source.WORD + guest.time)
    kernel_words += map(_share_word, guest.shares)
    return [
        *_machine(guest.arch, guest.accel, guest.image, kernel_words, guest.time),
        *("-name", "rocelab-vm", "-smp", str(guest.cpus), "-m", str(guest.memory_mib)),
        *_disk(guest),
        *("-device", "virtio-rng-pci"),
        *("-device", f"virtio-serial-pci,max_ports={len(guest.ports) + 1}"),
        *(word for number, path in enumerate(guest.ports) for word in _port_device(number, path)),
        *(word for share in guest.shares for word in _share_device(share)),
        *_becoming(guest),
        *("-qmp", f"unix:{_escaped(guest.monitor)},server=on,wait=off"),
        *("-serial", f"file:{_escaped(guest.console)}", "-pidfile", str(guest.pid_file), "-daemonize"),
    ]


def _emulation_words(guest: Guest) -> list[str]:
    """Return the kernel parameters of an emulated guest.

    maxcpus=1: A CPU that runs code while another patches it may keep the temporary breakpoint and crash ("Oops:
    int3"). QEMU up to 8.0 reads code before it locks its page, and 10.0 has a smaller window. A booting kernel
    patches much, so it boots on one CPU, and the guest's init brings the others online. Virtual time has one CPU
    anyway.

    tsc_early_khz, tsc=reliable: On a busy host the kernel measures the TSC's frequency wrong, even by two thirds. Or
    it abandons the TSC later, for a clock that is slow and uneven, and patches code that every CPU runs all the time.
    In virtual time the TSC is the clock.

    init_on_alloc=0: Debian's kernel clears memory on allocation, including that of packets. A slab of 32 KiB in the
    way of a frame delayed the PFC frame behind it by 33 us of virtual time.

    norandmaps: QEMU caches translated code by virtual address. With random addresses it translates a program and its
    libraries anew in every run, and fills its cache with that.
    """
    if guest.accel is not Accel.TCG:
        return []
    counter = [f"tsc_early_khz={guest.tsc_khz}", "tsc=reliable"] if guest.tsc_khz else []
    return ["norandmaps", "init_on_alloc=0", *([] if guest.time is Time.VIRTUAL else ["maxcpus=1"]), *counter]


def probe_argv(arch: Arch, image: Image, accel: Accel) -> list[str]:
    """Return the arguments for a guest without a disk: it prints PROBE_MARK and ends if ``accel`` works."""
    words = ["quiet", "loglevel=3", "panic=-1", "rocelab.probe"]
    return [*_machine(arch, accel, image, words), *("-smp", "2", "-m", "512", "-serial", "stdio")]


def _machine(arch: Arch, accel: Accel, image: Image, kernel_words: list[str], time: Time = Time.HOST) -> list[str]:
    accelerator, cpu = ("kvm", "max") if accel is Accel.KVM else ("tcg,thread=multi", arch.emulated_cpu)
    counting = []
    if time is Time.VIRTUAL:
        accelerator, counting = "tcg,thread=single", ["-icount", "shift=0,sleep=on", "-rtc", "clock=vm"]
    return [
        arch.qemu,
        *("-sandbox", "on,obsolete=deny,resourcecontrol=deny"),  # -daemonize needs spawn and elevateprivileges
        *("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"),
        *("-machine", arch.qemu_machine, "-accel", accelerator, "-cpu", cpu, *counting),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", " ".join([f"console={arch.console}", *kernel_words])),
    ]


def _disk(guest: Guest) -> list[str]:
    """Return the disk's options: the image below a temporary layer, or below a checkpoint's, an unnamed file."""
    opened = "cache=unsafe,discard=unmap,if=none,id=" + DISK
    device = ["-device", f"virtio-blk-pci,drive={DISK}"]
    if not guest.resumes:
        return ["-drive", f"file={_escaped(guest.image.disk)},format=raw,snapshot=on,{opened}", *device]
    given = [word for descriptor in guest.resumes for word in ("-add-fd", f"fd={descriptor},set=1")]
    # No other process can open the file, and the locks of QEMU's own two descriptors would conflict.
    drive = f"file=/dev/fdset/1,file.locking=off,format=qcow2,{opened}"
    return [*given, "-drive", drive, *device, "-incoming", "defer"]


def _becoming(guest: Guest) -> list[str]:
    """Return the options by which QEMU switches to the guest's user: -runas, or its successor in Debian 13's QEMU."""
    if guest.user is None:
        return []
    name = f"{guest.user[0]}:{guest.user[1]}"
    return ["-runas", name] if "-runas" in _help(guest.arch.qemu) else ["-run-with", f"user={name}"]


@functools.cache
def _help(program: str) -> str:
    return process.run([program, "-help"]).stdout


def _port_device(number: int, path: Path) -> list[str]:
    backend = f"socket,id=call{number},path={_escaped(path)},server=on,wait=off"
    return ["-chardev", backend, "-device", f"virtserialport,chardev=call{number},name={PORT_NAME}{number}"]


def _share_word(share: Share) -> str:
    encoded = base64.b64encode(str(share.path).encode()).decode("ascii")
    return f"rocelab.{share.tag}={encoded}"


def _share_device(share: Share) -> list[str]:
    security = isolation.security_of(share.path)
    backend = f"local,id={share.tag},path={_escaped(share.path)},security_model={security},multidevs=remap"
    if not share.writable:
        backend += ",readonly=on"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]


def _escaped(path: Path) -> str:
    """Return a path for a QEMU option, in which a comma is doubled."""
    return str(path).replace(",", ",,")
