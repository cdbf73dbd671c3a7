"""rocelab removes only its own objects: a matching name is no proof, and a journal only lists possible objects."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import hosts, injected, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]
NETNS = Path("/run/netns")


@contextmanager
def foreign(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A namespace that another program made, and a process in it."""
    mounted = f" {NETNS} " in Path("/proc/self/mountinfo").read_text(encoding="ascii")  # is_mount sees no bind mount
    subprocess.run(["ip", "netns", "add", name], check=True)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"]) as program:
        try:
            yield program
        finally:
            program.kill()
    subprocess.run(["ip", "netns", "delete", name], check=True)
    if not mounted:  # ip made it one, and leaves that
        subprocess.run(["umount", NETNS], check=True)
        NETNS.rmdir()


def test_nodes_of_two_fabrics_never_share_a_name(tmp_path: Path) -> None:
    """Node b-c of fabric a, and node c of fabric a-b."""
    rocelab("up", hosts(tmp_path, "a", "b-c", "d"))
    rocelab("up", hosts(tmp_path, "a-b", "c", "d"))
    assert rocelab_json("status", "--fabric", "a-b")["healthy"]
    rocelab("down", "--fabric", "a")
    assert rocelab_json("status", "--fabric", "a-b")["healthy"]
    assert {path.name for path in NETNS.glob("rl-*")} == {"rl-a-b.leaf", "rl-a-b.c", "rl-a-b.d"}


def test_undo_leaves_a_namespace_that_came_by_a_journalled_name(tmp_path: Path) -> None:
    """Killed between the journal's line and the creation; then another program takes the name."""
    file = hosts(tmp_path, "own", "h1", "h2")
    assert injected("link:1:after:SIGKILL", "up", file).returncode == -signal.SIGKILL
    assert {path.name for path in NETNS.iterdir()} == {"rl-own.leaf"}  # a file, not yet a namespace
    with foreign("rl-own.h2") as program:
        rocelab("down", "--fabric", "own")
        assert program.poll() is None
        assert [path.name for path in NETNS.iterdir()] == ["rl-own.h2"]


def test_undo_leaves_a_namespace_that_took_the_place_of_ours(tmp_path: Path) -> None:
    rocelab("up", hosts(tmp_path, "own", "h1", "h2"))
    subprocess.run(["ip", "netns", "delete", "rl-own.h2"], check=True)
    with foreign("rl-own.h2") as program:
        rocelab("down", "--fabric", "own")
        assert program.poll() is None
        assert [path.name for path in NETNS.iterdir()] == ["rl-own.h2"]


def test_undo_leaves_what_made_up_fail(tmp_path: Path) -> None:
    """The name is taken between the look at all names and the making of this one."""
    file = hosts(tmp_path, "own", "h1", "h2")
    with foreign("rl-own.h2") as program:
        assert "namespace rl-own.h2 exists" in rocelab("up", file, expect=2).stderr
        assert program.poll() is None


def test_namespaces_of_others_beside_a_fabric_do_not_make_it_busy(tmp_path: Path) -> None:
    """``ip netns add`` binds a /run/netns that is not yet its own mount over itself, with all that is in it."""
    rocelab("up", hosts(tmp_path, "own", "h1", "h2"))
    with foreign("somebodys"):
        rocelab("down", "--fabric", "own")
        assert [path.name for path in NETNS.iterdir()] == ["somebodys"]
