"""Root takes what goes into the kernel from nowhere where a user may write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.kernel.process import user_folders

ROOTS = Path("/var/cache/rocelab/bpf")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if with sudo(8), whoever we are."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's."""
    if os.getuid() == 0:
        os.chown(tmp_path, 1000, 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


def test_a_user_keeps_it_in_the_own_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert user_folders.kernel_cache("bpf") == home / ".cache/rocelab/bpf"


@pytest.mark.usefixtures("root")
def test_root_keeps_out_of_a_users_home_also_through_a_link(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert user_folders.kernel_cache("bpf") == ROOTS
    link = tmp_path_factory.mktemp("roots") / "link"
    link.symlink_to(home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(link))
    assert user_folders.kernel_cache("bpf") == ROOTS


@pytest.mark.usefixtures("root")
def test_root_keeps_it_where_only_root_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/usr/share")
    assert user_folders.kernel_cache("bpf") == Path("/usr/share/rocelab/bpf")


@pytest.mark.usefixtures("root", "home")
def test_nor_is_a_folder_of_roots_taken_that_others_write_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.stat

    def as_roots(path: Path, **options: bool) -> os.stat_result:
        state = list(real(path, **options))
        state[4] = 0
        return os.stat_result(state)

    monkeypatch.setattr(Path, "stat", as_roots)
    assert user_folders.kernel_cache("bpf") == home / ".cache/rocelab/bpf"
    home.chmod(0o775)
    assert user_folders.kernel_cache("bpf") == ROOTS
