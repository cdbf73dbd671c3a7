"""Taking a fabric down ends all processes in it, and no other process that has got one of their pids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from lab.backends.fabric_state import FabricState
from lab.errors import OperationFailed
from lab.kernel.process import cgroup, netns, netns_processes, process
from lab.kernel.process.netns import Namespace
from tests.fabric.command import ROOT, argv, hosts, rocelab, rocelab_json, running
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]
FORKING = "import os, signal, time\nwhile True:\n    if os.fork():\n        os._exit(0)\n    time.sleep(0.0001)"
"""A program that is another process before anybody can say which."""


@pytest.fixture
def group() -> Iterator[Path]:
    place = cgroup.place_for("tested")
    assert place is not None, "no cgroup2 here that can be changed"
    assert cgroup.create(place)
    yield place
    cgroup.end(place)
    cgroup.remove(place)
    assert not place.parent.exists()


def test_all_of_a_group_ends_at_once_however_it_forks(group: Path) -> None:
    with cgroup.opened(group / "h1") as members:
        program = process.start([sys.executable, "-c", FORKING], group=members)
    program.wait()  # the first of many
    assert (group / "h1" / "cgroup.procs").read_text()
    cgroup.end(group)
    assert (group / "h1" / "cgroup.procs").read_text() == ""


def test_a_group_that_does_not_end_is_told(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cgroup.opened(group) as members:
        program = process.start(["sleep", "600"], group=members)
    monkeypatch.setattr(cgroup, "_KILL", "cgroup.freeze")
    with pytest.raises(OperationFailed, match=f"processes of {group} cannot be ended"):
        cgroup.end(group, timeout=0.05)
    monkeypatch.undo()
    cgroup.end(group)
    program.wait()


def test_who_comes_into_a_group_that_is_being_ended_ends_too(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is of its group some time after it was forked, which may be when the others have been killed."""
    late: list[process.Process] = []
    read = os.pread

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        if not late:
            with cgroup.opened(group) as members:
                late.append(process.start(["sleep", "600"], group=members))
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    cgroup.end(group)
    assert late[0].wait(PATIENCE) == -9


def test_who_is_in_a_group_knows(group: Path) -> None:
    script = (
        "from pathlib import Path; from lab.kernel.process import cgroup; "
        f"print(cgroup.holds_us(Path({str(group)!r})))"
    )
    assert not cgroup.holds_us(group)
    with cgroup.opened(group / "h1") as members:
        program = process.start([sys.executable, "-c", script], stdout=process.PIPE, group=members)
    assert program.communicate()[0] == "True\n"


def groups_of(name: str) -> set[str]:
    """The cgroup of each daemon of a fabric, as the kernel says."""
    pids = [int(file.read_text()) for file in FabricState(name).directory.rglob("*.pid")]
    lines = [Path(f"/proc/{pid}/cgroup").read_text().splitlines() for pid in pids]
    return {line for each in lines for line in each if line.startswith("0::")}


def test_daemons_and_what_exec_runs_are_in_the_group_of_their_node(tmp_path: Path) -> None:
    rocelab("up", hosts(tmp_path, "ending", "h1", "h2"))
    (group,) = groups_of("ending")
    assert group == f"0::/rocelab/ending.{FabricState('ending').owner}/leaf"
    said = rocelab("exec", "h1", "--", "cat", "/proc/self/cgroup").stdout
    assert group.replace("/leaf", "/h1") in said.splitlines()


CONFINED = ("unshare", "--mount", "--propagation", "unchanged", "sh", "-c")
HIDE = 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"'


def confined(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """``rocelab words...`` where no cgroup can be changed."""
    command = [*CONFINED, HIDE, "sh", *argv(*words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("start", [rocelab, confined], ids=["with groups", "without"])
def test_daemons_end_though_their_namespace_has_lost_its_name(
    start: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """``ip netns delete`` takes the name; what runs there keeps the namespace. The snapshot sees what stays."""
    assert start("up", hosts(tmp_path, "ending", "h1", "h2")).returncode == 0
    (group,) = groups_of("ending")
    assert ("/rocelab/" in group) == (start is rocelab)
    subprocess.run(["ip", "netns", "delete", "rl-ending.leaf"], check=True)
    assert start("down", "--fabric", "ending").returncode == 0


@pytest.fixture
def forking() -> Iterator[tuple[process.Process, dict[str, int]]]:
    """A process alone in a namespace, which starts another at a line of input and ends; and the cookie."""
    cookies: dict[str, int] = {}
    netns.create(["rl-forking"], cookies.update)
    program = Namespace("rl-forking").start(["sh", "-c", "read line; sleep 600 &"], stdin=process.PIPE)
    yield program, cookies
    with netns_processes.inhabited(cookies) as places:
        process.kill(netns_processes.processes_in(places), meant=lambda _: True)
    program.communicate()
    netns.delete(["rl-forking"])


@pytest.mark.parametrize("call", ["open", "stat"])
def test_who_ends_as_we_look_is_not_all_that_is_there(
    call: str, forking: tuple[process.Process, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon goes into the background after /proc was listed, and its parent ends before it is looked at."""
    program, cookies = forking
    meant = getattr(os, call)

    def when_it_has_ended(path: str, *words: int, **named: int) -> object:
        if path == f"/proc/{program.pid}/ns/net" and program.poll() is None:
            program.communicate("end\n")
        return meant(path, *words, **named)

    monkeypatch.setattr(os, call, when_it_has_ended)
    with netns_processes.inhabited(cookies) as places:
        (left,) = netns_processes.processes_in(places)
    assert left != program.pid


def test_a_pid_that_is_somebody_elses_by_now_is_not_touched() -> None:
    """The scan has seen pid N in the node; that process ended, and N is an outsider's when it is to be killed."""
    cookies: dict[str, int] = {}
    netns.create(["rl-reused"], cookies.update)
    inside = Namespace("rl-reused").start(["sleep", "600"])
    outside = process.start(["sleep", "600"])
    try:
        with netns_processes.inhabited(cookies) as places:
            assert netns_processes.processes_in(places) == {inside.pid: "rl-reused"}
            process.kill([inside.pid, outside.pid], meant=lambda pid: netns.place_of(pid) in places)
        assert inside.wait(PATIENCE) == -9
        assert outside.poll() is None
    finally:
        outside.kill()
        outside.wait()
        netns.delete(["rl-reused"])


def test_what_is_hidden_is_not_forgotten(tmp_path: Path) -> None:
    """``ip netns exec`` has a /sys of its own, without cgroups: nothing is taken away in halves."""
    for name in ("ending", "other"):
        rocelab("up", hosts(tmp_path, name, "h1", "h2"))
    done = rocelab("exec", "h1", "--fabric", "other", "--", *argv("down", "--fabric", "ending"), expect=2)
    assert "is not seen from here: leave the node, then rocelab down" in done.stderr
    assert rocelab_json("status", "--fabric", "ending")["healthy"]


def test_down_from_a_shell_in_the_node_says_so_and_ends_nothing(tmp_path: Path) -> None:
    rocelab("up", hosts(tmp_path, "ending", "h1", "h2"))
    done = rocelab("exec", "h1", "--", *argv("down", "--fabric", "ending"), expect=2)
    assert "this shell runs inside ending.h1" in done.stderr
    assert rocelab_json("status")["healthy"]


@pytest.mark.parametrize(("number", "script", "code"), [
    (signal.SIGTERM, "echo ready; sleep 600; true", 143),
    (signal.SIGHUP, "echo ready; exec sleep 600", 129),
    (signal.SIGTERM, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done", 9),
])  # fmt: skip
def test_who_ends_exec_ends_what_it_runs(tmp_path: Path, number: signal.Signals, script: str, code: int) -> None:
    rocelab("up", hosts(tmp_path, "ending", "h1", "h2"))
    with running("exec", "h1", "--", "sh", "-c", script) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == "ready\n"
        ours.send_signal(number)
        assert ours.stdout.read() == "", "nobody has the pipe open any more"
        assert ours.wait(PATIENCE) == code


def test_who_ends_shell_ends_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interactive one, which ignores SIGTERM."""
    rocelab("up", hosts(tmp_path, "ending", "h1", "h2"))
    monkeypatch.setenv("SHELL", "/bin/sh")
    command, *words = argv("shell", "h1")
    with closing(pexpect.spawn(command, words, cwd=str(ROOT), timeout=PATIENCE, encoding="utf-8")) as ours:
        ours.expect_exact("ending/h1# ")
        ours.sendline("echo $((6 * 7))")
        ours.expect_exact("42")
        ours.kill(signal.SIGTERM)
        ours.expect(pexpect.EOF)
        ours.wait()
        assert ours.exitstatus == 128 + signal.SIGHUP
