"""Namespaces of other programs get rocelab's names, and lose nothing when these are gone; ip-netns(8) judges."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from lab.backends.containerlab_backend import ContainerRouter
from lab.errors import OperationFailed
from lab.kernel.process import netns, netns_processes
from lab.rdma.sysfs import until
from tests.fabric import snapshot
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.fabric
NAME = "rl-adopted"
WATCHED: Final = """
cp "$(command -v sleep)" "$0/watchfrr.sh"; cp "$0/watchfrr.sh" "$0/watchfrr"
"$0/watchfrr.sh" 600 & "$0/watchfrr" 600 &
echo $! > "$0/watchfrr.pid"; echo; exec cat
"""
"""FRR's watchdog, and a script of its own, which has nearly its name."""
LATE: Final = 'echo; cat; sleep 600 & echo $! > "$0/bgpd.pid"; exec sleep 600'
"""A container that starts its daemon when its input ends."""


@pytest.fixture
def theirs() -> Iterator[int]:
    """A process with a namespace of its own, as a container has."""
    command = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def identified(pid: int) -> str:
    return subprocess.run(["ip", "netns", "identify", str(pid)], capture_output=True, text=True, check=True).stdout


def test_an_adopted_namespace_has_a_name_as_long_as_we_want(theirs: int) -> None:
    before = snapshot.take()
    cookies: dict[str, int] = {}
    netns.adopt({NAME: theirs}, cookies.update)
    assert identified(theirs).split() == [NAME]
    assert netns.own(cookies) == [NAME]
    netns.delete([NAME])
    assert identified(theirs).split() == []
    assert before.differences(snapshot.take()) == []


def test_names_beside_links_that_others_have_go_and_the_links_stay(theirs: int, links_of_others: Path) -> None:
    before = snapshot.take()
    cookies: dict[str, int] = {}
    netns.adopt({NAME: theirs}, cookies.update)
    netns.let_go(netns.own(cookies))
    assert links_of_others.is_symlink()
    assert before.differences(snapshot.take()) == []


@pytest.fixture
def links_of_others(theirs: int) -> Iterator[Path]:
    """A link to a namespace, in a directory that is no mount: as containerlab leaves it."""
    made = not netns.NETNS_DIR.exists()
    netns.NETNS_DIR.mkdir(exist_ok=True)
    link = netns.NETNS_DIR / "clab-somebody-s"
    link.symlink_to(f"/proc/{theirs}/ns/net")
    yield link
    link.unlink()
    if made:
        netns.NETNS_DIR.rmdir()


def test_a_name_that_is_taken_is_told(theirs: int) -> None:
    netns.create([NAME])
    try:
        with pytest.raises(OperationFailed, match=f"namespace {NAME} exists"):
            netns.adopt({NAME: theirs}, lambda _: None)
        assert identified(theirs).split() == []
    finally:
        netns.delete([NAME])


def test_a_process_that_has_ended_is_told_and_leaves_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    before = snapshot.take()
    with pytest.raises(OperationFailed, match=f"process {process.pid}, for {NAME}, has ended"):
        netns.adopt({NAME: process.pid}, lambda _: None)
    assert before.differences(snapshot.take()) == []


def test_a_directory_that_is_prepared_goes_with_the_last_name() -> None:
    before = snapshot.take()
    netns.prepare()
    netns.create([NAME])
    netns.delete([NAME])
    assert before.differences(snapshot.take()) == []


def said_by_pgrep(name: str, beside: int) -> list[int]:
    words = ["pgrep", "--exact", name, "--ns", str(beside), "--nslist", "net"]
    return [int(pid) for pid in subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()]


@contextmanager
def container(folder: Path, script: str) -> Iterator[tuple[ContainerRouter, subprocess.Popen[str]]]:
    """A script with network and processes of its own, told that it runs, and its router."""
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        netns.adopt({NAME: process.pid}, lambda _: None)
        try:
            yield ContainerRouter("r1", netns.Namespace(NAME), folder, "clab-theirs-r1"), process
        finally:
            netns.delete([NAME])
            process.kill()
            process.stdin.close()


def test_a_container_s_daemon_is_the_process_that_its_file_names(tmp_path: Path) -> None:
    """By the container's own count, whatever else runs there, or was started there from outside with that number."""
    with container(tmp_path, WATCHED) as (router, process):
        assert until(lambda: bool(said_by_pgrep("watchfrr", process.pid)), timeout=PATIENCE)  # a shell becomes it
        (watchdog,) = said_by_pgrep("watchfrr", process.pid)
        assert router.pids() == {"watchfrr": watchdog}
        (tmp_path / "watchfrr.pid").write_text(f"{process.pid}\n")
        assert router.pids() == {"watchfrr": 0}


def test_a_daemon_that_starts_while_it_is_looked_for_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts_after_it(_: netns.Namespace) -> dict[int, int]:
        (tmp_path / "staticd.pid").write_text("7\n")
        return {}

    monkeypatch.setattr(netns_processes, "inner_pids", starts_after_it)
    router = ContainerRouter("r1", netns.Namespace(NAME), tmp_path, "clab-theirs-r1")
    assert router.pids() == {}
    assert router.pids() == {"staticd": 0}


def test_a_container_s_daemons_are_waited_for(tmp_path: Path) -> None:
    with container(tmp_path, LATE) as (router, process), ThreadPoolExecutor() as waiter:
        waits = waiter.submit(router.await_daemons, ["bgpd"])
        assert not waits.done()
        assert process.stdin is not None
        process.stdin.close()
        waits.result(PATIENCE)
        assert router.pids()["bgpd"] > 0


def test_a_container_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    with container(tmp_path, "echo; exec cat") as (router, process):
        assert process.stdin is not None
        process.stdin.close()
        with pytest.raises(OperationFailed, match="r1: zebra does not start"):
            router.await_daemons(["zebra"])
