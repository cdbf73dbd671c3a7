"""A file is replaced whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.kernel.process import files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text("old")
    with files.replaced(path) as fresh, fresh.open("w") as file:
        file.write("ne")
        file.flush()
        assert path.read_text() == "old"
        file.write("w")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_interrupted_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text("old")

    def interrupted() -> None:
        with files.replaced(path) as fresh:
            fresh.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
