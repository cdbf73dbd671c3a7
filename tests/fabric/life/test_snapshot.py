"""The judge of "nothing is left" sees what is left: each kind of thing alone, and a real namespace."""

import os
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest

from lab.kernel.process import netns, process
from lab.kernel.process.netns import Namespace
from tests.fabric import resident, snapshot

pytestmark = pytest.mark.fabric


@pytest.mark.parametrize("kind", [field.name for field in fields(snapshot.Snapshot)])
def test_what_came_and_what_went_is_told(kind: str) -> None:
    before = snapshot.take()
    after = replace(before, **{kind: (*getattr(before, kind), "something new")})
    assert before.differences(before) == []
    assert before.differences(after) == [f"{kind} + something new"]
    assert after.differences(before) == [f"{kind} - something new"]


def test_what_is_there_twice_is_told_from_what_is_there_once() -> None:
    """A mount on top of its like."""
    before = snapshot.take()
    once = before.mounts[0]
    after = replace(before, mounts=(*before.mounts, once))
    assert before.differences(after) == [f"mounts + {once}"]


def test_a_namespace_that_was_left_is_seen_in_mounts_and_files() -> None:
    before = snapshot.take()
    netns.create(["rl-left-over"])
    try:
        seen = before.differences(snapshot.take())
    finally:
        netns.delete(["rl-left-over"])
    assert "files + /run/netns/rl-left-over" in seen
    assert any(line.startswith("mounts + ") and "/run/netns/rl-left-over" in line for line in seen)
    assert before.differences(snapshot.take()) == []


@pytest.fixture
def bgpd(tmp_path: Path) -> Path:
    """A program that runs for long and has the name of one that fabrics have."""
    return Path(shutil.copy(process.find_tool("sleep", "coreutils"), tmp_path / "bgpd"))


def others() -> process.Surroundings:
    """Those of who is not started by these tests."""
    marks = {resident.MARK.partition("=")[0]}
    return process.Surroundings(environment={name: os.environ[name] for name in os.environ.keys() - marks})


def seen(bgpd: Path, within: process.Surroundings, place: process.Place = process.here) -> list[str]:
    """The differences that it makes when it is started."""
    before = snapshot.take()
    with process.ended(lambda: place(lambda: process.start([bgpd, "600"], within=within))) as program:
        return [line.replace(str(program.pid), "PID") for line in before.differences(snapshot.take())]


def test_what_our_commands_start_is_seen_and_what_others_start_is_not(bgpd: Path) -> None:
    """A user's ``bgpd --version`` is no process of a fabric, and rocelab's own is one."""
    assert seen(bgpd, process.Surroundings()) == ["processes + bgpd PID"]
    assert seen(bgpd, others()) == []


def test_what_runs_in_a_namespace_is_seen_whoever_started_it(bgpd: Path) -> None:
    """A container's daemons are containerd's."""
    netns.create(["rl-left-over"])
    try:
        assert seen(bgpd, others(), Namespace("rl-left-over").inside) == ["processes + bgpd PID"]
    finally:
        netns.delete(["rl-left-over"])


def test_who_has_ended_and_was_not_waited_for_is_not_seen(bgpd: Path) -> None:
    before = snapshot.take()
    with process.ended(lambda: process.start([bgpd, "0"])) as program:
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        assert before.differences(snapshot.take()) == []
