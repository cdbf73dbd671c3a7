"""Checkpoints without a guest: which fits, which are kept, and when a VM may be taken for what it was."""

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process
from lab.vm.checkpoints import auto_checkpoint, checkpoint, migration
from lab.vm.checkpoints.checkpoint import Checkpoint, CheckpointInfo
from lab.vm.host.qemu import Guest, Time
from lab.vm.host.vm_state import StateFolder
from lab.vm.image.recipe import Image


@pytest.fixture
def guest(guest: Guest, tmp_path: Path) -> Guest:
    """One whose disk is there, to be looked at."""
    image = Image(tmp_path / "rocelab/vm/0123456789abcdef")
    image.folder.mkdir(parents=True)
    image.disk.touch()
    return replace(guest, image=image)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where checkpoints are kept."""
    monkeypatch.setenv("ROCELAB_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(process, "find_tool", lambda _name, _package: __file__)
    return tmp_path / "checkpoints"


def files(into: Checkpoint) -> None:
    into.memory.write_bytes(b"memory")
    into.disk.write_bytes(b"disk")


def about(guest: Guest, saved: float = 1.0, *, automatic: bool = True) -> CheckpointInfo:
    return replace(checkpoint.now("for a test", guest, automatic=automatic), saved=saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda guest: replace(guest, memory_mib=guest.memory_mib + 1),
        lambda guest: replace(guest, shares=()),
        lambda guest: replace(guest, shares=tuple(replace(share, writable=True) for share in guest.shares)),
        lambda guest: replace(guest, time=Time.VIRTUAL),
        lambda guest: replace(guest, tsc_khz=1),
    ],
    ids=["memory", "shares", "writable", "time", "counter"],
)
def test_only_a_vm_of_the_same_kind_continues(guest: Guest, change: Callable[[Guest], Guest]) -> None:
    made = checkpoint.save("mine", about(guest), files)
    made.require_fit(replace(guest, console=Path("/elsewhere"), monitor=Path("/elsewhere")))
    with pytest.raises(UsageError, match="mine is of another"):
        made.require_fit(change(guest))


def test_other_code_or_another_disk_do_not_fit(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checkpoint.identity(guest)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "of_code", lambda: "other")
        assert checkpoint.identity(guest) != before
    assert checkpoint.identity(guest) == before
    guest.image.disk.write_bytes(b"rebuilt")
    assert checkpoint.identity(guest) != before


def test_a_save_that_fails_leaves_nothing(guest: Guest, folder: Path) -> None:
    def fail(into: Checkpoint) -> None:
        files(into)
        raise OperationFailed("no space left")

    with pytest.raises(OperationFailed, match="no space"):
        checkpoint.save("mine", about(guest), fail)
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_what_a_killed_save_left_goes_with_the_next(guest: Guest, folder: Path) -> None:
    (folder / ".saving-x").mkdir(parents=True)
    checkpoint.save("mine", about(guest), files)
    assert {path.name for path in folder.iterdir()} == {".lock", "mine"}
    with pytest.raises(UsageError, match="mine exists"):
        checkpoint.save("mine", about(guest), files)


def test_the_last_used_automatic_ones_are_kept(guest: Guest) -> None:
    checkpoint.save("by-hand", about(guest, automatic=False), files)
    for number in range(checkpoint.AUTOMATIC):
        checkpoint.save(f"booted-{number}", about(guest), files)
    Checkpoint(checkpoint.folder() / "booted-0").note_use()
    checkpoint.save("booted-new", about(guest), files)
    kept = {one.name for one in checkpoint.every()}
    assert len(kept) == 1 + checkpoint.AUTOMATIC
    assert {"by-hand", "booted-0", "booted-new"} <= kept
    assert "booted-1" not in kept


def test_those_of_an_image_that_is_gone_go_too(guest: Guest) -> None:
    checkpoint.save("booted-old", replace(about(guest), image="gone"), files)
    assert checkpoint.find("booted-old") is None
    checkpoint.save("by-hand", replace(about(guest, automatic=False), image="gone"), files)
    assert checkpoint.find("by-hand")
    shutil.rmtree(checkpoint.folder())
    assert checkpoint.every() == []


@pytest.mark.parametrize("name", ["", "../x", "Upper", "a/b", ".hidden", "x" * 64, "-x"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a checkpoint"):
        checkpoint.required(name)


def test_a_damaged_one_is_named_with_what_to_do(guest: Guest, folder: Path) -> None:
    checkpoint.save("mine", about(guest), files)
    (folder / "mine/about.json").write_text('{"what": 1')
    with pytest.raises(OperationFailed, match=r"mine is damaged.*rocelab vm checkpoint rm mine"):
        checkpoint.required("mine").require_fit(guest)


def test_work_is_the_words_and_the_files_of_an_up(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: a")
    up = ["rocelab", "up", str(file)]
    work = auto_checkpoint.work_of(up, {})
    assert work
    assert auto_checkpoint.work_of([*up, "--json"], {"HOME": "/", "ROCELAB_VM": "1", "ROCELAB_VM_NAME": "x"}) == work
    file.write_text("name: b")
    others = [auto_checkpoint.work_of(up, {}), auto_checkpoint.work_of([*up, "--name", "b"], {})]
    others.append(auto_checkpoint.work_of(up, {"ROCELAB_OTHER": "1"}))
    assert len({work, *others}) == 4
    file.write_text("name: a\nfaults: [{kind: link-down, place: h1}]")
    assert auto_checkpoint.work_of(up, {}) == ""


def test_a_vm_is_kept_when_up_was_all_that_ran(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateFolder(tmp_path / "vm")
    state.create()
    guest = replace(guest, time=Time.VIRTUAL, cpus=1)
    saved: list[StateFolder] = []

    def write(of: StateFolder, _image: object, into: Checkpoint) -> None:
        saved.append(of)
        files(into)

    monkeypatch.setattr(migration, "save", write)
    booted = auto_checkpoint._name(guest, "booted")

    def after(*others: str) -> bool:
        """Whether it is kept after an up of work "w", beside which ``others`` ran."""
        saved.clear()
        first = auto_checkpoint.touch(guest, "w", state)
        for work in others:
            auto_checkpoint.touch(guest, work, state)
        auto_checkpoint.keep(guest, first, state, lambda _line: None)
        return bool(saved)

    assert not after()  # nobody knows what it is
    state.untouched.write_text(booted)
    assert not after("")  # something else ran meanwhile
    assert not after()  # and has left what it left
    state.untouched.write_text(booted)
    assert not after("v")  # another up
    state.untouched.write_text(booted)
    assert after()
    assert not auto_checkpoint.touch(guest, "w", state).done  # the fabric is up, and `up` shall say so
    state.untouched.write_text(auto_checkpoint._name(guest, "w"))  # as a VM has it that continued from there
    assert auto_checkpoint.touch(guest, "w", state).done
    assert not auto_checkpoint.touch(guest, "w", state).done  # once
    state.untouched.write_text(booted)
    assert auto_checkpoint.further(guest, "w", state)
    assert not auto_checkpoint.further(guest, "v", state)
    assert not auto_checkpoint.further(replace(guest, time=Time.HOST), "w", state)
    state.untouched.write_text(auto_checkpoint._name(guest, "w"))
    assert not auto_checkpoint.further(guest, "w", state)  # a fabric is up in it


def caused(by: OSError) -> OperationFailed:
    """An error of QEMU's monitor."""
    error = OperationFailed("QEMU does not answer query-migrate")
    error.__cause__ = by
    return error


def disk(error: OSError) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), PermissionError(1, "not yours")])
def test_a_checkpoint_that_the_disk_does_not_take_is_none(
    guest: Guest, folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    with pytest.raises(OperationFailed, match=f"mine cannot be written: {error.strerror}: make room in {folder}"):
        checkpoint.save("mine", about(guest), disk(error))
    assert [path.name for path in folder.iterdir()] == [".lock"]
    state = StateFolder(folder.parent / "vm")
    state.create()
    said: list[str] = []
    monkeypatch.setattr(migration, "save", disk(error))
    assert not auto_checkpoint._save(guest, "auto", "booted", state, said.append)
    assert "no checkpoint of this" in said[0]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (FileNotFoundError(2, "No such file or directory", "disk.qcow2"), True),
        (caused(TimeoutError("timed out")), True),
        (OperationFailed("QEMU refuses it"), False),
        (caused(ConnectionResetError()), False),
    ],
    ids=["full", "pruned", "slow", "refused", "ended"],
)
def test_a_checkpoint_that_cannot_be_continued_from_is_passed_over(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, left: bool
) -> None:
    """Only one that is to blame goes."""
    guest = replace(guest, time=Time.VIRTUAL, cpus=1)
    state = StateFolder(tmp_path / "vm")
    state.create()
    name = auto_checkpoint._name(guest, "booted")
    checkpoint.save(name, about(guest), files)
    said: list[str] = []

    def fail(*_: object) -> object:
        raise error

    monkeypatch.setattr(migration, "disk_of", fail)
    assert auto_checkpoint.resumed(guest, "", state, said.append) is None
    assert bool(checkpoint.find(name)) == left
    assert str(getattr(error, "strerror", None) or error) in said[-1]


def test_a_memory_that_was_pruned_is_named(guest: Guest, tmp_path: Path) -> None:
    """And not QEMU, which has been started by then."""
    found = checkpoint.save("mine", about(guest), files)
    found.memory.unlink()
    with pytest.raises(FileNotFoundError, match="memory"):
        migration.resume(StateFolder(tmp_path / "vm"), found)


def test_one_that_is_pruned_as_it_is_chosen_is_passed_over(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = replace(guest, time=Time.VIRTUAL, cpus=1)
    state = StateFolder(tmp_path / "vm")
    state.create()
    found = checkpoint.save(auto_checkpoint._name(guest, "booted"), about(guest), files)

    def pruned(_: Checkpoint) -> None:
        found.remove()
        (found.folder / "about.json").stat()

    monkeypatch.setattr(Checkpoint, "note_use", pruned)
    assert auto_checkpoint.resumed(guest, "", state, lambda _: None) is None
