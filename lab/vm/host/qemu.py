"""The argument list that starts a guest."""

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
"""The guest's agent writes it to the console when it answers calls (lab/vm/guest/agent.py)."""
PROBE_MARK = "rocelab: probe passed"
"""What a probe guest writes before it ends (scripts/guest/initrd-init)."""

CACHE = "cache"
"""Tag of the share that guests write their caches to, and find the files of calls in."""
DISK = "disk"
"""What the disk is called in the monitor."""


class Accel(StrEnum):
    """What runs the guest's instructions."""

    KVM = "kvm"
    TCG = "tcg"


class Time(StrEnum):
    """Whose time a guest lives in."""

    HOST = time_source.HOST
    """The host's clocks: a guest that gets no CPU for a while is late."""
    VIRTUAL = time_source.VIRTUAL
    """QEMU's count of instructions, 1 ns each: a busy host makes a run longer and never different."""


@dataclass(frozen=True)
class Share:
    """A host folder in the guest: at the same path there, and where the guest's init wants it by its tag."""

    tag: str
    path: Path
    writable: bool = False


@dataclass(frozen=True)
class Guest:
    """One guest as it is to be started."""

    arch: Arch
    image: Image
    accel: Accel
    time: Time
    cpus: int
    """One in virtual time, whose counter is one for all."""
    memory_mib: int
    shares: tuple[Share, ...]
    tsc_khz: int | None
    """Frequency of an emulated x86 guest's cycle counter: the host's, or that of virtual time. None where unknown."""
    console: Path
    """File that receives the serial console."""
    pid_file: Path
    ports: tuple[Path, ...]
    """Sockets of the ports on which calls come in (lab/vm/calls/channel.py)."""
    monitor: Path
    """Socket of QEMU's monitor."""
    user: tuple[int, int] | None = None
    """User and group that QEMU becomes when everything is open; None where it stays who starts it."""
    resumes: tuple[int, ...] = ()
    """Descriptors of the disk of a checkpoint that it continues from, to write and to read; none when it boots."""


def guest_argv(guest: Guest) -> list[str]:
    """Start ``guest`` in the background; its disk is a throw-away copy-on-write view of the image.

    It has no network. The only way in are the ports, whose sockets are in a folder that is its user's alone. A fault
    of the kernel ends it, of which it would else go on with half of its locks taken.
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
    """How the kernel starts when QEMU translates its code, with all virtual CPUs in parallel.

    A CPU that runs code while another patches it may keep the breakpoint that stands there meanwhile, and dies of it
    ("Oops: int3"): QEMU reads code before it locks its page, up to 8.0, and 10.0 has a smaller hole. A starting
    kernel patches much, so it starts on one CPU, and the guest's init brings the others online.

    On a busy host the kernel gets the counter's frequency wrong, by two thirds even, or gives the counter up later,
    for a clock that is slow and uneven, and patches what every CPU runs all the time. So it is told.

    In virtual time there is one CPU, and the counter is the clock.

    Debian's kernel clears memory as it is given out, packets' too: a slab of 32 KiB in the way of a frame held up the
    PFC frame behind it by 33 us of virtual time.

    What QEMU has translated it finds again by the code's virtual address: of a program and its libraries that are
    each time at another one, it translates every instruction of every run anew, and fills its cache with that.
    """
    if guest.accel is not Accel.TCG:
        return []
    counter = [f"tsc_early_khz={guest.tsc_khz}", "tsc=reliable"] if guest.tsc_khz else []
    return ["norandmaps", "init_on_alloc=0", *([] if guest.time is Time.VIRTUAL else ["maxcpus=1"]), *counter]


def probe_argv(arch: Arch, image: Image, accel: Accel) -> list[str]:
    """Run a guest without a disk in the foreground: it prints PROBE_MARK and ends by itself when ``accel`` works."""
    words = ["quiet", "loglevel=3", "panic=-1", "rocelab.probe"]
    return [*_machine(arch, accel, image, words), *("-smp", "2", "-m", "512", "-serial", "stdio")]


def _machine(arch: Arch, accel: Accel, image: Image, kernel_words: list[str], time: Time = Time.HOST) -> list[str]:
    accelerator, cpu = ("kvm", "max") if accel is Accel.KVM else ("tcg,thread=multi", arch.emulated_cpu)
    counting = []
    if time is Time.VIRTUAL:
        accelerator, counting = "tcg,thread=single", ["-icount", "shift=0,sleep=on", "-rtc", "clock=vm"]
    return [
        arch.qemu,
        *("-sandbox", "on,obsolete=deny,resourcecontrol=deny"),  # -daemonize dies of spawn=deny and elevateprivileges
        *("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"),
        *("-machine", arch.qemu_machine, "-accel", accelerator, "-cpu", cpu, *counting),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", " ".join([f"console={arch.console}", *kernel_words])),
    ]


def _disk(guest: Guest) -> list[str]:
    """The image under a throw-away layer, which continues that of a checkpoint: a file without a name."""
    opened = "cache=unsafe,discard=unmap,if=none,id=" + DISK
    device = ["-device", f"virtio-blk-pci,drive={DISK}"]
    if not guest.resumes:
        return ["-drive", f"file={_escaped(guest.image.disk)},format=raw,snapshot=on,{opened}", *device]
    given = [word for descriptor in guest.resumes for word in ("-add-fd", f"fd={descriptor},set=1")]
    # Nobody else can have it, and QEMU's own two descriptors of it would be in each other's way.
    drive = f"file=/dev/fdset/1,file.locking=off,format=qcow2,{opened}"
    return [*given, "-drive", drive, *device, "-incoming", "defer"]


def _becoming(guest: Guest) -> list[str]:
    """Options by which QEMU becomes the guest's user: -runas, which Debian 13's has no more, or its successor."""
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
    """A path inside a QEMU option, where a comma is written twice."""
    return str(path).replace(",", ",,")
