"""A recipe, an image and a guest that exist only on paper."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.vm.host.qemu import Accel, Guest, Share, Time
from lab.vm.host.vm_state import RunningVm
from lab.vm.image.arch import ARCHES
from lab.vm.image.recipe import Image, Recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    guest = tmp_path / "guest"
    (guest / "root/etc").mkdir(parents=True)
    (guest / "packages.txt").write_text("# routing\nfrr\n\niproute2  # ip and tc\n")
    (guest / "apt-backports").write_text("#!/bin/sh\n")
    (guest / "root/etc/motd").write_text("hello\n")
    lock = tmp_path / "requirements.lock"
    lock.write_text("typer==0.29.2 --hash=sha256:00\n")
    return Recipe(ARCHES["x86_64"], guest, lock)


@pytest.fixture
def image() -> Image:
    return Image(Path("/cache/0123456789abcdef"))


@pytest.fixture
def guest(image: Image) -> Guest:
    return Guest(
        arch=ARCHES["x86_64"],
        image=image,
        accel=Accel.TCG,
        time=Time.HOST,
        cpus=2,
        memory_mib=4096,
        shares=(Share("checkout", Path("/home/ann/rocelab")),),
        tsc_khz=2_596_130,
        console=Path("/run/vm/console.log"),
        pid_file=Path("/run/vm/qemu.pid"),
        ports=(Path("/run/vm/call-0"), Path("/run/vm/call-1")),
        monitor=Path("/run/vm/monitor"),
    )


@pytest.fixture
def arm_guest(guest: Guest) -> Guest:
    return replace(guest, arch=ARCHES["aarch64"], tsc_khz=None)


@pytest.fixture
def running(image: Image) -> RunningVm:
    return RunningVm(
        pid=4711,
        pid_started=99,
        accel=Accel.KVM,
        time=Time.HOST,
        cpus=2,
        memory_mib=4096,
        image=image,
        kernel="7.2.12+deb13-amd64",
        shares=(Share("checkout", Path("/home/ann/rocelab")), Share("cache", image.guest_cache, writable=True)),
        started=1.0,
        boot_seconds=4.8,
    )
