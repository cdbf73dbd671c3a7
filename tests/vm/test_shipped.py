"""The objects in the package are those that the image's compiler makes of the sources, byte for byte."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lab.kernel import clang

from .build_objects import SOURCES, build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The port's sources at another place."""
    (source,) = (source for source in SOURCES if source.name == "port.bpf.c")
    shutil.copytree(source.parent, tmp_path / "bpf")
    return tmp_path / "bpf" / source.name


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_shipped_object_is_what_its_sources_make(source: Path, tmp_path: Path) -> None:
    assert build(source, tmp_path / "again.o").read_bytes() == clang.shipped(source).read_bytes()


def test_where_the_sources_lie_is_not_part_of_the_object(copy: Path, tmp_path: Path) -> None:
    assert build(copy, tmp_path / "elsewhere.o").read_bytes() == clang.shipped(copy).read_bytes()


def test_other_sources_make_another_object_and_do_not_get_the_shipped_one(copy: Path, tmp_path: Path) -> None:
    before = clang.compile_bpf(copy)
    assert before.parent == copy.parent
    header = copy.with_name("watchdog.h")
    header.write_text(header.read_text().replace("restored++", "restored += 2"))
    assert build(copy, tmp_path / "changed.o").read_bytes() != before.read_bytes()
    after = clang.compile_bpf(copy)
    assert after.parent != copy.parent
