"""The argument list that starts a guest."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lab.vm.arch import Arch
    from lab.vm.recipe import Image

READY_MARK = "rocelab: ready"
"""The guest's first program writes it to the console when SSH answers (scripts/guest/root/.../init)."""
PROBE_MARK = "rocelab: probe passed"
"""What a probe guest writes before it ends (scripts/guest/initrd-init)."""


class Accel(StrEnum):
    """What runs the guest's instructions."""

    KVM = "kvm"
    TCG = "tcg"


@dataclass(frozen=True)
class Share:
    """A host folder in the guest: at the same path there, and where the guest's init wants it by its tag."""

    tag: str
    path: Path


@dataclass(frozen=True)
class Guest:
    """One guest as it is to be started."""

    arch: Arch
    image: Image
    accel: Accel
    cpus: int
    memory_mib: int
    ssh_port: int
    shares: tuple[Share, ...]
    tsc_khz: int | None
    """Frequency of the host's cycle counter, which is an emulated x86 guest's too; None where it is not known."""
    console: Path
    """File that receives the serial console."""
    pid_file: Path


def guest_argv(guest: Guest) -> list[str]:
    """Start ``guest`` in the background; its disk is a throw-away copy-on-write view of the image.

    Its one network has no route out: the only way in or out is the forwarded SSH port on the host's loopback.
    """
    kernel_words = ["quiet", "loglevel=3", "panic=-1", "mitigations=off", *_emulation_words(guest)]
    kernel_words += map(_share_word, guest.shares)
    disk = f"file={_escaped(guest.image.disk)},if=none,id=disk,format=raw,snapshot=on,cache=unsafe,discard=unmap"
    network = f"user,id=net,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{guest.ssh_port}-:22"
    return [
        *_machine(guest.arch, guest.accel, guest.image, kernel_words),
        *("-name", "rocelab-vm", "-smp", str(guest.cpus), "-m", str(guest.memory_mib)),
        *("-drive", disk, "-device", "virtio-blk-pci,drive=disk"),
        *("-netdev", network, "-device", "virtio-net-pci,netdev=net,romfile="),
        *("-device", "virtio-rng-pci"),
        *(word for share in guest.shares for word in _share_device(share)),
        *("-serial", f"file:{_escaped(guest.console)}", "-pidfile", str(guest.pid_file), "-daemonize"),
    ]


def _emulation_words(guest: Guest) -> list[str]:
    """How the kernel starts when QEMU translates its code, with all virtual CPUs in parallel.

    A CPU that runs code while another patches it may keep the breakpoint that stands there meanwhile, and dies of it
    ("Oops: int3"): QEMU reads code before it locks its page, up to 8.0, and 10.0 has a smaller hole. A starting
    kernel patches much, so it starts on one CPU, and the guest's init brings the others online.

    On a busy host the kernel gets the counter's frequency wrong, by two thirds even, or gives the counter up later,
    for a clock that is slow and uneven, and patches what every CPU runs all the time. So it is told.
    """
    if guest.accel is not Accel.TCG:
        return []
    clock = [f"tsc_early_khz={guest.tsc_khz}", "tsc=reliable"] if guest.tsc_khz else []
    return ["maxcpus=1", *clock]


def probe_argv(arch: Arch, image: Image, accel: Accel) -> list[str]:
    """Run a guest without a disk in the foreground: it prints PROBE_MARK and ends by itself when ``accel`` works."""
    words = ["quiet", "loglevel=3", "panic=-1", "rocelab.probe"]
    return [*_machine(arch, accel, image, words), *("-smp", "2", "-m", "512", "-serial", "stdio")]


def _machine(arch: Arch, accel: Accel, image: Image, kernel_words: list[str]) -> list[str]:
    accelerator, cpu = ("kvm", "max") if accel is Accel.KVM else ("tcg,thread=multi", arch.emulated_cpu)
    return [
        arch.qemu,
        *("-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"),
        *("-machine", arch.qemu_machine, "-accel", accelerator, "-cpu", cpu),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", " ".join([f"console={arch.console}", *kernel_words])),
    ]


def _share_word(share: Share) -> str:
    encoded = base64.b64encode(str(share.path).encode()).decode("ascii")
    return f"rocelab.{share.tag}={encoded}"


def _share_device(share: Share) -> list[str]:
    backend = f"local,id={share.tag},path={_escaped(share.path)},security_model=none,multidevs=remap"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={share.tag},mount_tag={share.tag}"]


def _escaped(path: Path) -> str:
    """A path inside a QEMU option, where a comma is written twice."""
    return str(path).replace(",", ",,")
