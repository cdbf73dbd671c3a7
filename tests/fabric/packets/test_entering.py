"""Whoever runs rocelab stays where he is, at whatever moment a signal comes: only threads go into nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.kernel.netlink.routes import RouteNews
from lab.kernel.packets.inject import Injector
from lab.kernel.packets.packet_ring import PacketRing
from lab.kernel.process import libc, netns, process
from lab.kernel.process.netns import Namespace
from tests.fabric import snapshot
from tests.fabric.command import hosts, injected, only_line, rocelab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.fabric
NODE = Namespace("rl-entered")
WAYS: dict[str, Callable[[], object]] = {
    "run": lambda: NODE.run(["true"]),
    "socket": lambda: RouteNews([NODE]),
    "ring": lambda: PacketRing(NODE, "lo", blocks=1, program=()),
    "injector": lambda: Injector(NODE, "lo"),
}


@pytest.fixture(autouse=True)
def node() -> Iterator[None]:
    netns.create([NODE.name])
    yield
    netns.delete([NODE.name])


def here() -> int:
    """The namespace of the process as others see it: that of its first thread."""
    return Path("/proc/self/ns/net").stat().st_ino


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what was under way when the signal came
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_comes_as_setns_returns_leaves_nobody_inside(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home, real = os.open("/proc/self/ns/net", os.O_RDONLY), libc.setns

    def setns(*arguments: Any) -> None:
        real(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(libc, "setns", setns)
    try:
        with pytest.raises(KeyboardInterrupt):
            WAYS[way]()
        assert here() == os.fstat(home).st_ino
    finally:
        real(home, libc.CLONE_NEWNET)  # so that a failure here fails nothing else
        os.close(home)


def test_programs_are_known_before_a_signal_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT as clone(2) returns: the program is ended, not orphaned."""
    started: list[int] = []
    real = subprocess.Popen.__init__

    def popen(self: subprocess.Popen[str], *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        started.append(self.pid)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "__init__", popen)
    for run in (NODE.run, process.run):
        with pytest.raises(KeyboardInterrupt):
            run(["sleep", "600"])
    assert len(started) == 2
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_a_socket_made_inside_is_of_the_node() -> None:
    """The reason to enter: nothing is up there."""
    made = NODE.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with made, pytest.raises(OSError, match="Network is unreachable"):
        made.connect(("127.0.0.1", 9))


@pytest.mark.parametrize("number", range(1, 13))
def test_an_up_that_is_interrupted_as_it_enters_a_node_undoes_itself(number: int, tmp_path: Path) -> None:
    before = snapshot.take()
    done = injected(f"setns:{number}:after:SIGINT", "up", hosts(tmp_path, "entered", "h1", "h2"))
    if done.returncode == 0:  # it came when there was nothing more to undo
        rocelab("down", "--fabric", "entered")
    else:
        assert only_line(done.stderr) == "error: ended by SIGINT"
    assert before.differences(snapshot.take()) == []
