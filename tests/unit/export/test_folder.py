"""Where an export is written: a folder that was not there, whole or not at all."""

import os
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.export.folder import write

FILES = {"a.txt": "a\n", "n/b.txt": "b\n"}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("ready", [False, True])
def test_a_new_folder_or_an_empty_one(tmp_path: Path, ready: bool) -> None:
    folder = tmp_path / "deep" / "out"
    if ready:
        folder.mkdir(parents=True)
    write(FILES, folder)
    assert names(folder) == ["a.txt", "n", "n/b.txt"]
    assert names(folder.parent) == ["out", "out/a.txt", "out/n", "out/n/b.txt"]
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_folder_of_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(FILES, Path("out"))
    assert names(tmp_path) == ["out", "out/a.txt", "out/n", "out/n/b.txt"]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is not empty: name another with -o, or remove it"):
        write(FILES, tmp_path)
    assert names(tmp_path) == ["mine"]


def test_what_is_no_folder(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(tmp_path / "nowhere")
    for path in (file, link):
        with pytest.raises(UsageError, match="is no folder"):
            write(FILES, path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*file/out"):
        write(FILES, tmp_path / "file" / "out")


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write({**FILES, "n" * (os.pathconf(tmp_path, "PC_NAME_MAX") + 1): ""}, tmp_path / "out")
    assert names(tmp_path) == []
