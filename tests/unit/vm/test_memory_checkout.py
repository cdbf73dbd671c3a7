"""The archive of the checkout for the memory of a guest (tests/fabric/memory_checkout.py)."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.fabric import memory_checkout

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = ("lab/a.py", "tests/b.py", "scenarios/c.py", "topologies/d.yaml")
WHEN = 1_700_000_000
"""Python recognises bytecode by the time of its source."""


class Vm:
    """A VM with a folder that it shares."""

    def __init__(self, folder: Path) -> None:
        self.guest_cache = folder / "cache"


@pytest.fixture
def vm(tmp_path: Path) -> Any:
    made = Vm(tmp_path)
    made.guest_cache.mkdir()
    return made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name in (
        "lab/a.py",
        "lab/__pycache__/a.cpython-311.pyc",
        "tests/b.py",
        "scenarios/c.py",
        "topologies/d.yaml",
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        os.utime(file, (WHEN, WHEN))
    (folder / "recordings").mkdir()
    return folder


def files(vm: Any) -> dict[str, float]:
    with tarfile.open(memory_checkout.archive_path(vm, "test0")) as archive:
        return {member.name: member.mtime for member in archive if member.isfile()}


def test_it_has_the_sources_with_their_times_and_no_bytecode_of_the_host(vm: Any, checkout: Path) -> None:
    memory_checkout.pack(vm, "test0", checkout)
    assert files(vm) == dict.fromkeys(SOURCES, WHEN)


def test_it_has_the_bytecode_of_the_guest(vm: Any, checkout: Path) -> None:
    compiled = vm.guest_cache / "bytecode" / checkout.relative_to("/") / "lab/a.cpython-313.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"")
    unfinished = compiled.with_name("b.cpython-313.pyc.140027")  # another guest writes it, and then renames it
    unfinished.write_bytes(b"")
    memory_checkout.pack(vm, "test0", checkout)
    assert files(vm).keys() - set(SOURCES) == {"bytecode/lab/a.cpython-313.pyc"}


def test_the_guest_reads_it_where_it_has_the_folder_that_the_host_shares(vm: Any) -> None:
    words = memory_checkout.within_copy(vm, "test0", "python3", "-m", "tests.forks")
    assert words[0] == "unshare"
    assert words[-4:] == ["/root/.cache/rocelab/checkout-of-test0.tar", "python3", "-m", "tests.forks"]


def test_without_a_vm_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    monkeypatch.setattr("sys.argv", ["memory_checkout", "test0", "true"])
    assert memory_checkout.main() == 4
    assert "no VM test0" in capsys.readouterr().err
