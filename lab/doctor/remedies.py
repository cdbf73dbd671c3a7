"""The one command that mends a lack, as this distribution spells it."""

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
    """What decides how a thing is installed here."""

    distribution: str
    """``ID`` of os-release(5): ``debian``, ``ubuntu``."""
    machine: str
    """Processor as the kernel calls it: ``x86_64``."""
    release: str
    """The kernel's release."""
    root: bool
    in_vm: bool
    kvm: bool
    """Whether the device of KVM is there; it may still not run guests."""
    time: str = time_source.HOST
    """Whose time it lives in."""

    @property
    def qemu(self) -> str:
        """QEMU's program for this processor."""
        arch = ARCHES.get(self.machine)
        return arch.qemu if arch else f"qemu-system-{self.machine}"

    @property
    def qemu_package(self) -> str:
        """The Debian package that has it."""
        arch = ARCHES.get(self.machine)
        return arch.qemu_package if arch else "qemu-system"

    @property
    def debian_arch(self) -> str:
        """Debian's name of the processor."""
        arch = ARCHES.get(self.machine)
        return arch.debian if arch else self.machine


def this_host() -> HostDistribution:
    """The machine we run on."""
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
    """Look again with the rights that building namespaces takes."""
    return _privileged(host, "rocelab doctor")


def install(host: HostDistribution, *packages: str) -> str:
    """Install Debian packages; Ubuntu's have the same names."""
    return _privileged(host, f"apt-get install {' '.join(packages)}")


def kernel_module(host: HostDistribution) -> str:
    """Get a module that the smallest kernels of distributions lack; elsewhere, use the VM."""
    if host.distribution == "ubuntu":
        return install(host, f"linux-modules-extra-{host.release}")
    if host.distribution == "debian" and "-cloud-" in host.release:
        return install(host, f"linux-image-{host.debian_arch}")
    return the_vm(host)


def the_vm(host: HostDistribution) -> str:
    """Do it in the VM, which brings the newest kernel."""
    return "rocelab vm build --force, outside of the VM" if host.in_vm else "rocelab vm up"


def run_kvm(host: HostDistribution) -> str:
    """Let the VM run at full speed; it works without, too."""
    if host.kvm and not host.root:
        return "sudo adduser $USER kvm"
    return "turn on nested virtualisation"


def _privileged(host: HostDistribution, command: str) -> str:
    return command if host.root else f"sudo {command}"
