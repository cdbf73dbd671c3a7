"""The machines that these tests run on side by side (tests/private_machine.py): what is private, and how they end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.kernel.process import cgroup
from lab.rdma.sysfs import until
from tests import private_machine
from tests.fabric import snapshot
from tests.fabric.command import ROOT, hosts, rocelab
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric

CHANGES = """
ip link add there type veth peer name other
touch /run/there /etc/there /var/tmp/there /sys/fs/cgroup/cgroup.procs
mkdir /run/netns && mount --bind /run/netns /run/netns
setsid sleep 600 &
processes=(/proc/[0-9]*)
echo ${#processes[@]}
exit 42
"""
CLEANS_UP = """
import signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
print("begun", flush=True)
ended.wait()
print("cleaned up", flush=True)
sys.exit(7)
"""


@contextlib.contextmanager
def on_its_own(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A command on a machine of its own, which is killed where a test fails."""
    argv = [sys.executable, "-m", "tests.private_machine", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def test_nothing_that_is_changed_there_is_changed_here() -> None:
    """It has three processes: the first, the shell, and one that is left there and ends too, as the cgroup does."""
    before = snapshot.take()
    root = cgroup.place_for("")
    groups = set(root.parent.iterdir()) if root else set()
    with on_its_own("bash", "-c", CHANGES) as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (42, "3\n", "")
    assert before.differences(snapshot.take()) == []
    assert not any(Path(folder, "there").exists() for folder in ("/run", "/etc", "/var/tmp"))  # noqa: S108 - only looked at
    assert root is None or set(root.parent.iterdir()) == groups


def test_a_fabric_there_is_not_in_the_way_of_one_here_of_the_same_name(tmp_path: Path) -> None:
    file = hosts(tmp_path, "twice", "h1", "h2")
    rocelab_there = f"{sys.executable} -m lab"
    rocelab("up", file)
    try:
        words = " && ".join(f"{rocelab_there} {word}" for word in (f"up {file}", "status", "down --all"))
        with on_its_own("bash", "-c", words) as process:
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, err
        rocelab("status")
    finally:
        rocelab("down", "--all")


def test_sigterm_lets_the_command_clean_up() -> None:
    with on_its_own(sys.executable, "-c", CLEANS_UP) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "cleaned up\n"
        assert process.wait(PATIENCE) == 7


def test_all_of_it_ends_with_whoever_started_it() -> None:
    """By SIGKILL: a pipe that everything there holds open is closed."""
    with on_its_own("bash", "-c", "setsid sleep 600 & echo begun; exec sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.kill()
        assert process.stdout.read() == ""
    if root := cgroup.place_for(""):  # nobody was left to remove it
        group = root.parent / f"rocelab-tests-{process.pid}"
        assert until(lambda: "populated 0" in (group / "cgroup.events").read_text(), timeout=PATIENCE)
        private_machine.remove(group)
