"""The record of the running VM survives the disk, and a recycled pid does not pass for it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import OperationFailed
from lab.vm.host import kvm
from lab.vm.host.qemu import Share
from lab.vm.host.vm_lifecycle import is_shared, is_writable
from lab.vm.host.vm_state import RunningVm, StateFolder, parse_start, process_start, state_folder


def test_record_round_trips(running: RunningVm) -> None:
    assert RunningVm.from_json(running.to_json()) == running


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"accel": "xen"}'])
def test_damaged_record_is_told_with_the_remedy(text: str) -> None:
    with pytest.raises(OperationFailed, match=r"state file is damaged.*: rocelab vm down"):
        RunningVm.from_json(text)


def test_record_with_an_unknown_field_is_damaged(running: RunningVm) -> None:
    data = json.loads(running.to_json()) | {"colour": "red"}
    with pytest.raises(OperationFailed, match="colour"):
        RunningVm.from_json(json.dumps(data))


def test_start_time_is_found_behind_any_command_name() -> None:
    stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 3 0 123456 1000 20 0"
    assert parse_start(stat) == 123456


def test_own_process_is_alive_and_its_recycled_pid_is_not(running: RunningVm) -> None:
    started = process_start(os.getpid())
    assert started is not None
    mine = replace(running, pid=os.getpid(), pid_started=started)
    assert mine.alive()
    assert not replace(mine, pid_started=started + 1).alive()


def test_folder_without_record_has_no_vm(tmp_path: Path, running: RunningVm) -> None:
    folder = StateFolder(tmp_path)
    assert folder.running() is None
    folder.record.write_text(replace(running, pid_started=-1, pid=os.getpid()).to_json())
    assert folder.running() is None


def test_folder_is_for_the_owner_only(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "deep/vm")
    folder.create()
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_folder_of_someone_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(OperationFailed, match="belongs to another user"):
        StateFolder(tmp_path).create()


@pytest.mark.parametrize(
    ("user", "environment", "place"),
    [
        (0, {}, "/run/rocelab/vm"),
        (1000, {"XDG_RUNTIME_DIR": "/run/user/1000"}, "/run/user/1000/rocelab/vm"),
        (1000, {"XDG_CACHE_HOME": "/home/ann/.cache"}, "/home/ann/.cache/rocelab/vm-state"),
        (0, {"ROCELAB_VM_STATE": "/srv/vm"}, "/srv/vm"),
    ],
)
def test_folder_of_each_user(
    monkeypatch: pytest.MonkeyPatch, user: int, environment: dict[str, str], place: str
) -> None:
    for name in ("XDG_RUNTIME_DIR", "ROCELAB_VM_STATE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert state_folder().path == Path(place)


def test_verdict_on_kvm_holds_for_one_boot_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = StateFolder(tmp_path)
    assert kvm.read_verdict(folder) is None
    kvm.write_verdict(folder, works=False)
    assert kvm.read_verdict(folder) is False
    monkeypatch.setattr(kvm, "_boot_id", lambda: "another boot")
    assert kvm.read_verdict(folder) is None


def test_damaged_verdict_counts_as_none(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.kvm_verdict.write_text("{")
    assert kvm.read_verdict(folder) is None


@pytest.mark.parametrize(
    ("path", "shared"),
    [("/home/ann/rocelab", True), ("/home/ann/rocelab/a/b", True), ("/home/ann/rocelab2", False), ("/home", False)],
)
def test_shared_folders(running: RunningVm, path: str, shared: bool) -> None:
    assert is_shared(running, Path(path)) is shared
    assert not is_writable(running, Path(path))


def test_the_innermost_folder_says_whether_it_is_writable(running: RunningVm) -> None:
    tree = {"/home/ann": True, "/home/ann/rocelab": False, "/home/ann/rocelab/recordings": True}
    shares = tuple(Share(path, Path(path), writable) for path, writable in tree.items())
    for path, writable in (tree | {"/home": False}).items():
        for order in (shares, shares[::-1]):
            assert is_writable(replace(running, shares=order), Path(path)) is writable
            assert is_writable(replace(running, shares=order), Path(path, "file")) is writable
