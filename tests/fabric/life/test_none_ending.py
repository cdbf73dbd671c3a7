"""Namespaces that end, and what waits for them or has them wait: the kernel's own list of interfaces is the judge."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.errors import OperationFailed
from lab.kernel.bpf import probe
from lab.kernel.process import libc, netns, netns_teardown, process
from lab.kernel.process.netns import Namespace
from lab.kernel.process.threads import in_thread
from lab.rdma.sysfs import until
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]
MANY = 20


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The lock is on a directory of the test: there may be no RDMA here."""
    monkeypatch.setattr(netns_teardown, "RDMA_DEVICES", tmp_path)
    return tmp_path


@pytest.fixture
def kept() -> Iterator[Namespace]:
    name = f"rl-kept-{os.getpid()}"
    netns.create([name])
    yield Namespace(name)
    netns.delete([name])


def names(namespace: Namespace) -> set[str]:
    """The interfaces in it."""
    return {name for _, name in namespace.inside(socket.if_nameindex)}


def test_what_ended_before_has_gone_when_the_block_begins(kept: Namespace) -> None:
    """Its interfaces' other ends are in a namespace that stays: these go when it is taken apart."""

    def leave() -> None:
        for number in range(MANY):
            libc.unshare(libc.CLONE_NEWNET)
            process.run(["ip", "link", "add", "x0", "type", "veth", "peer", f"x{number}", "netns", str(kept.path)])

    in_thread(leave)
    with netns_teardown.none_ending():
        assert names(kept) == {"lo"}


def test_a_thread_has_left_its_network_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is not through with a thread when it can be joined."""
    network = Path("/proc/thread-self/ns/net")
    ended_in: list[int] = []

    class Watched(threading.Thread):
        def run(self) -> None:
            super().run()
            ended_in.append(network.stat().st_ino)

    def leave() -> int:
        libc.unshare(libc.CLONE_NEWNET)
        return network.stat().st_ino

    monkeypatch.setattr(threading, "Thread", Watched)
    assert in_thread(leave) != network.stat().st_ino
    assert ended_in == [network.stat().st_ino]


def test_no_namespace_ends_within_the_block(kept: Namespace) -> None:
    """Neither one with a name nor a trial's: both wait until it is over."""
    other = f"rl-other-{os.getpid()}"
    netns.create([other])
    process.run(["ip", "-n", other, "link", "add", "x0", "type", "veth", "peer", "x0", "netns", str(kept.path)])
    words = ["ip", "link", "add", "x1", "type", "veth", "peer", "x1", "netns", str(kept.path)]
    ends = [
        threading.Thread(target=netns.delete, args=([other],)),
        threading.Thread(target=probe.in_new_namespace, args=(lambda: process.run(words),)),
    ]
    with netns_teardown.none_ending():
        for end in ends:
            end.start()
        assert until(lambda: names(kept) == {"lo", "x0", "x1"}, timeout=PATIENCE)  # the trial has begun
        for end in ends:
            end.join(timeout=0.5)
            assert end.is_alive()
        assert names(kept) == {"lo", "x0", "x1"}
    for end in ends:
        end.join(timeout=PATIENCE)
        assert not end.is_alive()
    with netns_teardown.none_ending():
        assert names(kept) == {"lo"}


def test_what_the_block_waits_by_is_no_name_and_no_interface_of_ours() -> None:
    before = socket.if_nameindex()
    with netns_teardown.none_ending():
        assert socket.if_nameindex() == before


def test_a_kernel_that_does_not_come_to_an_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns_teardown, "_PATIENCE", 0.05)
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(2, "witness0")])
    descriptors = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(OperationFailed, match="namespaces that have ended"), netns_teardown.none_ending():
        raise AssertionError
    assert set(Path("/proc/self/fd").iterdir()) == descriptors


def test_without_rdma_namespaces_end_at_once(monkeypatch: pytest.MonkeyPatch, devices: Path) -> None:
    monkeypatch.setattr(netns_teardown, "RDMA_DEVICES", devices / "missing")
    assert probe.in_new_namespace(lambda: 42) == 42
    with pytest.raises(FileNotFoundError), netns_teardown.none_ending():
        raise AssertionError
