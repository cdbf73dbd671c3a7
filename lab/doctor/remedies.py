"""The command that provides a missing capability on this distribution."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.kernel.process import time_source
from lab.vm.calls.call import inside_vm
from lab.vm.image.arch import ARCHES

KVM: Final = Path("/dev/kvm")


@dataclass(frozen=True, slots=True)
class HostDistribution:
    """The properties of this machine that decide how something is installed."""

    distribution: str
    """ID of os-release(5), for example debian; empty if it is unknown."""
    machine: str
    """Processor architecture as the kernel reports it: x86_64."""
    release: str
    """Release of the kernel."""
    root: bool
    in_vm: bool
    kvm: bool
    """Whether /dev/kvm exists; it may still fail to run guests."""
    time: str = time_source.HOST
    """Clock of the machine: real time (host), or the VM's virtual time."""

    @property
    def qemu(self) -> str:
        """QEMU's program for this processor."""
        arch = ARCHES.get(self.machine)
        return arch.qemu if arch else f"qemu-system-{self.machine}"

    @property
    def qemu_package(self) -> str:
        """The Debian package that contains it."""
        arch = ARCHES.get(self.machine)
        return arch.qemu_package if arch else "qemu-system"

    @property
    def debian_arch(self) -> str:
        """Debian's name of the processor."""
        arch = ARCHES.get(self.machine)
        return arch.debian if arch else self.machine


def this_host() -> HostDistribution:
    """Return the properties of this machine."""
    try:
        distribution = platform.freedesktop_os_release()["ID"]
    except OSError:
        distribution = ""
    return HostDistribution(
        distribution=distribution,
        machine=platform.machine(),
        release=os.uname().release,
        root=os.geteuid() == 0,
        in_vm=inside_vm(),
        kvm=KVM.exists(),
        time=time_source.lives_in(),
    )


def become_root(host: HostDistribution) -> str:
    """Return the command that repeats the check with the rights that namespaces need."""
    return _privileged(host, "rocelab doctor")


def install(host: HostDistribution, *packages: str) -> str:
    """Return the command that installs Debian packages; Ubuntu's have the same names."""
    return _privileged(host, f"apt-get install {' '.join(packages)}")


def kernel_module(host: HostDistribution) -> str:
    """Return the command for a module that a distribution's minimal kernels lack; otherwise, that for the VM."""
    if host.distribution == "ubuntu":
        return install(host, f"linux-modules-extra-{host.release}")
    if host.distribution == "debian" and "-cloud-" in host.release:
        return install(host, f"linux-image-{host.debian_arch}")
    return the_vm(host)


def the_vm(host: HostDistribution) -> str:
    """Return the command for the VM, which has the newest kernel."""
    return "rocelab vm build --force, outside of the VM" if host.in_vm else "rocelab vm up"


def run_kvm(host: HostDistribution) -> str:
    """Return the remedy for KVM, with which the VM runs at full speed; it also works without."""
    if host.kvm and not host.root:
        return "sudo adduser $USER kvm"
    return "turn on nested virtualisation"


def _privileged(host: HostDistribution, command: str) -> str:
    return command if host.root else f"sudo {command}"
