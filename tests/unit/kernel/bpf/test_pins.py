"""Folders of pins, as far as any file system shows; tests/vm/kernel/test_bpf.py has the rest."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.bpf import pins


class Killed(BaseException):
    """Stands in for SIGKILL."""


def die_at(patch: pytest.MonkeyPatch, step: str, number: int) -> None:
    """Have the n-th call of a method of Path be the last."""
    real, calls = getattr(Path, step), []

    def call(path: Path, *arguments: Any, **options: Any) -> Any:
        calls.append(path)
        if len(calls) == number:
            raise Killed
        return real(path, *arguments, **options)

    patch.setattr(Path, step, call)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the BPF file system."""
    monkeypatch.setattr(pins, "BPF_FILES", tmp_path)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    return tmp_path


def test_every_kind_has_its_place_and_no_name_a_dot() -> None:
    folder = pins.folder_of("clos-2x4")
    places = [pins.map_path(folder, "port"), pins.program_path(folder, "port"), pins.link_path(folder, "port")]
    assert len(set(places)) == 3
    assert all(place.is_relative_to("/sys/fs/bpf/rocelab/clos-2x4") for place in places)
    assert "." not in "".join(map(str, places))


def test_a_folder_is_made_once_and_taken_away_with_its_parent(files: Path) -> None:
    one, two = files / "rocelab/one", files / "rocelab/two"
    pins.create(one, "me")
    pins.create(two, "me")
    pins.map_path(one, "counters").touch()
    with pytest.raises(OperationFailed, match=r"rocelab/one exists: rocelab down"):
        pins.create(one, "me")
    pins.unpin(one)
    assert not one.exists()
    pins.unpin(one)
    assert two.exists()
    pins.unpin(two)
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(("step", "number"), [*(("mkdir", number) for number in range(1, 9)), ("rename", 1)])
def test_its_owner_finds_a_folder_whatever_step_was_the_last(
    step: str, number: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = files / "rocelab/one"
    with monkeypatch.context() as patch:
        die_at(patch, step, number)
        with pytest.raises(Killed):
            pins.create(one, "me")
    before = set(files.rglob("*")) - {one.parent}
    pins.unpin_own(one, "other")
    assert set(files.rglob("*")) - {one.parent} == before
    pins.unpin_own(one, "me")
    assert list(files.iterdir()) == []


@pytest.mark.parametrize("number", range(1, 7))
def test_its_owner_finds_what_is_left_of_a_folder_whichever_of_it_was_the_last_to_go(
    number: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six things are in it, and itself: whose it was is not to be what goes first."""
    one = files / "rocelab/one"
    pins.create(one, "me")
    places = [pins.map_path(one, "ports"), pins.program_path(one, "port")]
    for place in places:
        place.touch()
    gone: list[object] = []

    def dying(real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **options: Any) -> None:
            if len(gone) == number:
                raise Killed
            real(*arguments, **options)
            gone.append(arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", dying(os.rmdir))
        patch.setattr(os, "unlink", dying(os.unlink))
        with pytest.raises(Killed):
            pins.unpin_own(one, "me")
    assert len(gone) == number
    pins.unpin_own(one, "me")
    assert list(files.iterdir()) == []


def test_what_has_the_name_already_is_left_alone(files: Path) -> None:
    one = files / "rocelab/one"
    pins.create(one, "other")
    with pytest.raises(OperationFailed, match=r"rocelab/one exists: rocelab down"):
        pins.create(one, "me")
    pins.unpin_own(one, "me")
    assert (one / "other").is_dir()
    pins.unpin_own(one, "other")
    assert list(files.iterdir()) == []


def test_without_a_bpf_file_system_the_mount_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "BPF_FILES", tmp_path)
    with pytest.raises(EnvironmentLacks, match=f"no BPF file system at {tmp_path}: mount -t bpf bpf {tmp_path}"):
        pins.create(tmp_path / "rocelab/one", "me")
