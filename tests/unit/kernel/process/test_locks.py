"""A lock is held by one command: others wait with a message, or fail at once; a kill releases it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.kernel.process import locks
from tests.unit.kernel.process.free_locks import is_free

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["file", "folder"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Something to hold, of either kind."""
    path = tmp_path / "held"
    path.touch() if request.param == "file" else path.mkdir()
    return path


def flock(path: Path) -> subprocess.Popen[bytes]:
    """flock(1), which has the lock until it is killed."""
    argv = ["flock", "--no-fork", str(path), "sh", "-c", "echo; read line"]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.read(1) == b"\n"
    return holder


def test_it_is_held_as_long_as_asked(path: Path) -> None:
    with locks.held(path):
        assert not is_free(path)
    assert is_free(path)


def test_who_waits_is_told_for_whom_and_a_killed_holder_lets_go(path: Path) -> None:
    told: list[str] = []

    def waiting(holder: str) -> None:
        told.append(holder)
        other.kill()

    with flock(path) as other, locks.held(path, waiting=waiting):
        assert not is_free(path)
    assert told == [f"sh -c echo; read line (pid {other.pid})"]


def test_who_does_not_wait_knows_whether_it_has_it(path: Path) -> None:
    with flock(path) as other:
        with locks.held_if_free(path) as free:
            assert not free
        other.kill()
    with locks.held_if_free(path) as free:
        assert free
        assert not is_free(path)


def test_a_file_is_made_where_asked_and_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(FileNotFoundError), locks.held(path):
        pytest.fail("there is nothing to hold")
    with locks.held(path, make=True):
        assert path.stat().st_mode & 0o777 == 0o600
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="link"), locks.held(link, make=True):
        pytest.fail("somebody else's file is held")


def test_a_holder_that_has_ended_is_known_by_its_name(path: Path) -> None:
    """The lock is the descriptor's, which others have inherited; the process has no command line any more."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with subprocess.Popen(["flock", "-x", str(descriptor)], pass_fds=[descriptor]) as other:
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
            assert locks.holder_of(path) == f"flock (pid {other.pid})"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("", "kworker/0:1 (pid 7)"),
        ("\0\0", "kworker/0:1 (pid 7)"),
        ("worker: waits for work", "worker: waits for work (pid 7)"),  # a title that a program gave itself
        ("/usr/bin/flock\0a file\0", "flock a file (pid 7)"),
        ("/usr/bin/flock\0\0", "flock  (pid 7)"),
        ("/usr/bin/python3\0/usr/bin/rocelab\0down\0", "rocelab down (pid 7)"),
    ],
)
def test_whatever_a_process_says_of_itself_is_shown(monkeypatch: pytest.MonkeyPatch, line: str, shown: str) -> None:
    said = {"cmdline": line, "comm": "kworker/0:1\n"}
    monkeypatch.setattr(locks, "_of_process", lambda _pid, file: said[file])
    assert locks._command(7) == shown


@pytest.mark.parametrize("again", [True, False], ids=["another is there", "none is there"])
def test_what_its_holder_takes_away_as_we_open_it_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    path, taken = tmp_path / "lock", locks._taken
    path.touch()
    opened: list[int] = []

    def gone(descriptor: int, mode: int) -> bool:
        if not opened:
            path.unlink()
            if again:
                path.touch()
        opened.append(descriptor)
        return taken(descriptor, mode)

    monkeypatch.setattr(locks, "_taken", gone)
    with locks.held_if_free(path, make=True) as free:
        assert free
        assert not is_free(path), "the lock of the file that others find"
    path.unlink()
    opened.clear()
    path.touch()
    if not again:
        with pytest.raises(FileNotFoundError), locks.held_if_free(path):
            pytest.fail("there is nothing to hold")
