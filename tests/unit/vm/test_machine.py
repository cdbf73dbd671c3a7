"""Starting and ending without a guest: when KVM is given up, whom `down` may kill, what a failed boot says."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process
from lab.vm.host import boot, kvm, vm_lifecycle
from lab.vm.host.qemu import PROBE_MARK, Accel, Guest
from lab.vm.host.vm_lifecycle import Wanted
from lab.vm.host.vm_state import RunningVm, StateFolder, process_start
from lab.vm.image import image_build
from lab.vm.image.arch import ARCHES, Arch
from lab.vm.image.recipe import Image
from tests.patience import PATIENCE

WAITS = "while read line; do :; done"
"""A shell that waits for its standard input to end."""


def quiet(_line: str) -> None:
    """Nobody listens to progress."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    monkeypatch.setenv("ROCELAB_CHECKPOINTS", "0")
    folder = StateFolder(tmp_path / "vm")
    folder.create()
    return folder


def test_the_checkout_is_read_and_what_is_recorded_or_asked_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "rocelab"
    root.mkdir()
    monkeypatch.setattr(vm_lifecycle, "checkout", lambda: root)
    ours = [("checkout", root, False), ("recordings", root / "recordings", True)]

    def shares(extra: Path | None) -> list[tuple[str, Path, bool]]:
        return [(share.tag, share.path, share.writable) for share in vm_lifecycle._shares(extra)]

    assert shares(None) == shares(root / "recordings") == shares(root / "recordings/mine") == ours
    for extra in (tmp_path, tmp_path / "mine", root / "mine"):
        assert shares(extra) == [*ours, ("extra", extra, True)]
    with pytest.raises(UsageError, match=r"the VM reads .*/rocelab, and may not write there: share a folder in it"):
        shares(root)


def test_without_a_checkout_recordings_are_kept_where_the_vm_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the user's folder the guest sees recordings/ alone."""
    package, here = tmp_path / "package", tmp_path / "here"
    package.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(vm_lifecycle, "checkout", lambda: package)
    monkeypatch.setattr(vm_lifecycle, "is_installed", lambda: True)
    shares = [(share.path, share.writable) for share in vm_lifecycle._shares(None)]
    assert shares == [(package, False), (here / "recordings", True)]
    assert list(package.iterdir()) == []


@pytest.fixture
def stranger(folder: StateFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is no VM, whose pid an old pid file holds."""
    other = subprocess.Popen(["sh", "-c", WAITS], stdin=subprocess.PIPE)
    folder.pid_file.write_text(f"{other.pid}\n")
    yield other
    other.communicate()


@pytest.mark.parametrize(
    ("argv", "timeout", "works"),
    [
        (["echo", PROBE_MARK], PATIENCE, True),
        (["echo", "SeaBIOS"], PATIENCE, False),
        (["sh", "-c", f"echo {PROBE_MARK}; exit 6"], PATIENCE, False),
        (["sleep", "100"], 0.5, False),
    ],
    ids=["passes", "says something else", "crashes", "hangs"],
)
def test_probe(monkeypatch: pytest.MonkeyPatch, image: Image, argv: list[str], timeout: float, works: bool) -> None:
    monkeypatch.setattr(kvm, "probe_argv", lambda *_: argv)
    assert kvm.probe(ARCHES["x86_64"], image, Accel.KVM, timeout=timeout) is works


def test_without_the_device_kvm_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, folder: StateFolder, image: Image
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert kvm.choose_accel(ARCHES["x86_64"], image, folder) is Accel.TCG
    assert kvm.read_verdict(folder) is None


def test_kvm_is_probed_once(monkeypatch: pytest.MonkeyPatch, folder: StateFolder, image: Image) -> None:
    probes: list[Accel] = []
    monkeypatch.setattr(os, "access", lambda *_: True)

    def probe(_arch: Arch, _image: Image, accel: Accel, _timeout: float) -> bool:
        probes.append(accel)
        return True

    monkeypatch.setattr(kvm, "probe", probe)
    assert [kvm.choose_accel(ARCHES["x86_64"], image, folder) for _ in range(2)] == [Accel.KVM, Accel.KVM]
    assert probes == [Accel.KVM]


@pytest.mark.parametrize("works", [True, False])
def test_a_guest_that_hangs_under_kvm_starts_under_tcg_and_kvm_is_tried_again(
    works: bool, monkeypatch: pytest.MonkeyPatch, folder: StateFolder, image: Image, running: RunningVm
) -> None:
    """Memory may have been short, or the host busy: only a probe that fails now speaks against KVM."""
    tried: list[Accel] = []

    def booted(guest: Guest, *_: object) -> RunningVm:
        tried.append(guest.accel)
        if guest.accel is Accel.KVM:
            raise OperationFailed("the VM is not up after 30 s")
        return replace(running, accel=guest.accel)

    monkeypatch.setattr(vm_lifecycle, "boot", booted)
    monkeypatch.setattr(process, "find_tool", lambda name, _package: name)
    kvm.write_verdict(folder, works=True)
    monkeypatch.setattr(os, "access", lambda *_: True)
    planned = vm_lifecycle._planned(image, Wanted(), folder, quiet)
    monkeypatch.setattr(kvm, "probe", lambda *_: works)
    assert vm_lifecycle._start(planned, Wanted(), folder, quiet).accel is Accel.TCG
    assert tried == [Accel.KVM, Accel.TCG]
    assert kvm.read_verdict(folder) is works


def test_a_failed_boot_under_tcg_is_an_error(
    monkeypatch: pytest.MonkeyPatch, folder: StateFolder, image: Image
) -> None:
    def booted(*_: object) -> RunningVm:
        raise OperationFailed("the VM ended while booting")

    monkeypatch.setattr(vm_lifecycle, "boot", booted)
    monkeypatch.setattr(process, "find_tool", lambda name, _package: name)
    kvm.write_verdict(folder, works=False)
    planned = vm_lifecycle._planned(image, Wanted(), folder, quiet)
    with pytest.raises(OperationFailed, match="ended while booting"):
        vm_lifecycle._start(planned, Wanted(), folder, quiet)


def test_error_of_a_failed_boot_names_the_log_and_shows_why(folder: StateFolder) -> None:
    folder.console.write_text("Booting\n" * 20 + "Kernel panic - no init\n")
    gone = subprocess.Popen(["true"])
    gone.wait()
    folder.pid_file.write_text(f"{gone.pid}\n")
    with pytest.raises(OperationFailed) as failure:
        boot._wait_ready(folder, 1.0)
    assert str(failure.value) == f"the VM ended while booting\nKernel panic - no init: see {folder.console}"


def test_a_qemu_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, guest: Guest, tmp_path: Path
) -> None:
    image = Image(tmp_path)
    image.manifest.touch()
    monkeypatch.setattr(boot, "guest_argv", lambda _guest: ["sh", "-c", "echo 'qemu: no such disk' >&2; exit 1"])
    with pytest.raises(OperationFailed, match=r"^QEMU does not start: qemu: no such disk: rocelab vm build --force$"):
        boot._launch(replace(guest, image=image))


def test_down_ends_a_qemu_that_was_never_recorded(folder: StateFolder) -> None:
    """It is known by its words, which a process has none of for a moment after exec: it runs when it speaks."""
    argv = ["sh", "-c", f"echo runs; {WAITS}", "qemu", "-pidfile", str(folder.pid_file)]
    qemu = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert qemu.stdout is not None
    assert qemu.stdout.readline() == b"runs\n"
    folder.pid_file.write_text(f"{qemu.pid}\n")
    assert vm_lifecycle.down(folder)
    assert qemu.wait() == -9
    qemu.communicate()
    assert not folder.pid_file.exists()
    assert not vm_lifecycle.down(folder)


def test_down_leaves_a_stranger_alone(
    folder: StateFolder, stranger: subprocess.Popen[bytes], running: RunningVm
) -> None:
    started = process_start(stranger.pid)
    assert started is not None
    folder.record.write_text(replace(running, pid=stranger.pid, pid_started=started - 1).to_json())
    assert not vm_lifecycle.down(folder)
    assert stranger.poll() is None
    assert not folder.record.exists()


def test_the_image_of_a_running_vm_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, folder: StateFolder, stranger: subprocess.Popen[bytes], running: RunningVm
) -> None:
    alive = replace(running, pid=stranger.pid, pid_started=process_start(stranger.pid) or 0)
    folder.record.write_text(alive.to_json())
    monkeypatch.setattr(image_build, "image_of", lambda _recipe: running.image)
    with pytest.raises(UsageError, match="rocelab vm down"):
        image_build.build(lambda _line: None, force=True)
