"""The owner of QEMU, and the rights that a call grants it: on folders of this machine, with simulated owners."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.vm.host import isolation

ANN, BOB, ROOT = (1000, 1000), (1001, 100), (0, 0)


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[Path, tuple[int, int]]:
    """Owner and group of each folder that is asked for."""
    told: dict[Path, tuple[int, int]] = {}

    def ask(path: Path) -> SimpleNamespace:
        user, group = told[path]
        return SimpleNamespace(st_uid=user, st_gid=group)

    monkeypatch.setattr(os, "stat", ask)
    return told


@pytest.mark.parametrize(
    ("starts", "folders", "becomes"),
    [
        (0, [ANN, ANN], ANN),
        (0, [BOB], BOB),
        (0, [ROOT], None),
        (0, [ANN, ROOT], None),
        (0, [ANN, BOB], None),
        (1000, [ANN], None),
    ],
    ids=["sudo", "another group", "root's own", "one is root's", "of two", "no root"],
)
def test_qemu_is_whom_all_folders_belong_to(
    monkeypatch: pytest.MonkeyPatch,
    owners: dict[Path, tuple[int, int]],
    starts: int,
    folders: list[tuple[int, int]],
    becomes: tuple[int, int] | None,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: starts)
    owners |= {Path(f"/{number}"): owner for number, owner in enumerate(folders)}
    assert isolation.user_for(owners) == becomes


@pytest.fixture
def chowned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is given away: nobody but root may do that."""
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, user, group, **_: given.append((Path(path).name, user, group)))
    return given


def test_a_users_guests_have_a_cache_in_which_what_is_roots_stays(
    tmp_path: Path, chowned: list[tuple[str, int, int]]
) -> None:
    assert isolation.cache_for(tmp_path / "cache", None) == tmp_path / "cache"
    for _ in range(2):
        own = isolation.cache_for(tmp_path / "cache", BOB)
        assert own == tmp_path / "cache-1001"
        assert stat.S_IMODE(own.stat().st_mode) == 0o1770
    assert chowned == [("cache-1001", 0, 100)] * 2


def test_roots_folder_for_results_is_given_to_whom_its_folder_belongs_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 0)
        patched.setattr(os, "fstat", lambda _: SimpleNamespace(st_uid=0))
        patched.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
        folder = SimpleNamespace(st_mode=stat.S_IFDIR, st_uid=ANN[0], st_gid=ANN[1])
        patched.setattr(Path, "stat", lambda *_, **__: folder)
        made = [isolation.folder_in(tmp_path, "recordings") for _ in range(2)]
    assert made == [tmp_path / "recordings"] * 2
    assert given == [ANN] * 2


def test_a_link_or_a_file_is_no_folder_for_results(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    assert isolation.folder_in(tmp_path, "link") is None
    assert isolation.folder_in(tmp_path, "file") is None


def test_a_calls_folder_is_given_whole_and_no_link_is_followed(
    tmp_path: Path, chowned: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path / "call"
    (folder / "home/ann").mkdir(parents=True)
    (folder / "home/ann/mine.yaml").touch()
    (folder / "home/link").symlink_to(tmp_path)
    isolation.give(folder, None)
    assert chowned == []
    isolation.give(folder, ANN)
    assert sorted(chowned) == [(name, *ANN) for name in ("ann", "call", "home", "link", "mine.yaml")]


def test_a_mode_is_the_one_that_guests_see(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(mode=0o640)
    with file.open("rb") as opened:
        assert stat.S_ISREG(isolation.mode_in_guest(opened.fileno()))
        os.setxattr(file, "user.virtfs.mode", (stat.S_IFLNK | 0o777).to_bytes(4, "little"))
        assert stat.S_ISLNK(isolation.mode_in_guest(opened.fileno()))
