"""Commands at the same time: each waits for the other where it must, names it, and succeeds or ends with one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab.backends.fabric_state import FabricState
from lab.kernel.process.netns import Namespace
from tests.fabric.command import ROOT, argv, hosts, rocelab, rocelab_json, running
from tests.fabric.frames import listening
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return hosts(tmp_path, "both", "h1", "h2")


def waits_for(process: subprocess.Popen[str], words: str, other: subprocess.Popen[str]) -> None:
    """Read its line that it waits for the other."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("waiting for "), line
    assert words in line
    assert line.endswith(f" (pid {other.pid})\n")


def stopped(trap: str, *words: str | Path) -> subprocess.Popen[str]:
    """``rocelab words...``, when it has stopped where the trap says."""
    command = [sys.executable, "-m", "tests.fabric.injected", f"{trap}:SIGSTOP", "--", *map(str, words)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)
    state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state is not None
    assert state.si_code == os.CLD_STOPPED, process.communicate()
    return process


@pytest.mark.parametrize("trap", ["netlink:1:before", "netlink:3:before"])
def test_down_waits_for_one_who_reads(file: Path, trap: str) -> None:
    rocelab("up", file)
    reader = stopped(trap, "status", "--json")
    with reader, running("down", "--fabric", "both") as writer:
        try:
            waits_for(writer, "-- st", reader)
            assert FabricState("both").ready
        finally:
            reader.send_signal(signal.SIGCONT)
        said, complained = reader.communicate(timeout=PATIENCE)
        assert (reader.returncode, complained) == (0, "")
        assert json.loads(said)["healthy"]
        assert writer.wait(PATIENCE) == 0


def test_status_and_a_second_up_wait_for_up(file: Path) -> None:
    first = stopped("journal:3:after", "up", file)
    with first, running("status") as reader, running("up", file) as second:
        try:
            waits_for(reader, "-- up", first)
            waits_for(second, "-- up", first)
        finally:
            first.send_signal(signal.SIGCONT)
        assert first.wait(PATIENCE) == 0
        assert reader.wait(PATIENCE) == 0
        assert second.wait(PATIENCE) == 2
        assert second.stderr is not None
        assert "fabric both exists" in second.stderr.read()


def test_who_waits_can_be_interrupted(file: Path) -> None:
    rocelab("up", file)
    reader = stopped("netlink:3:before", "status")
    with reader, running("down", "--fabric", "both") as writer:
        try:
            waits_for(writer, "-- st", reader)
            writer.send_signal(signal.SIGINT)
            assert writer.wait(PATIENCE) == 130
        finally:
            reader.send_signal(signal.SIGCONT)
        assert reader.wait(PATIENCE) == 0
    assert rocelab_json("status")["healthy"]


def test_down_of_all_goes_on_after_one_that_cannot(tmp_path: Path) -> None:
    """The shell is in the first by name."""
    for name in ("a", "b", "c"):
        rocelab("up", hosts(tmp_path, name, "h1", "h2"))
    inside = ["nsenter", "--net=/run/netns/rl-a.h1", *argv("down", "--all")]
    done = subprocess.run(inside, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.splitlines()[:2] == ["fabric b is down", "fabric c is down"]
    assert "this shell runs inside a.h1" in done.stderr
    assert [fabric["fabric"] for fabric in rocelab_json("ls")] == ["a"]


def test_a_capture_ends_with_its_fabric_though_another_has_the_names(file: Path, tmp_path: Path) -> None:
    """Stopped for the time of a down and an up, so that it sees neither."""
    rocelab("up", file)
    output = tmp_path / "both.pcapng"
    with running("capture", "h1:eth1", "-o", output) as capture:
        while not listening(Namespace("rl-both.h1")):
            assert capture.poll() is None
        capture.send_signal(signal.SIGSTOP)
        rocelab("down", "--fabric", "both")
        rocelab("up", file)
        capture.send_signal(signal.SIGCONT)
        assert capture.wait(PATIENCE) == 0


def test_an_interrupt_does_not_wait_for_daemons_that_do_not_start(file: Path, tmp_path: Path) -> None:
    """Far less than the two minutes that a daemon is given."""
    hanging = tmp_path / "bgpd"
    shutil.copy("/usr/lib/frr/bgpd", tmp_path / "real")
    hanging.write_text(
        f'#!/bin/sh\ncase "$*" in *--daemon*) touch {tmp_path}/begun; exec sleep 600;; esac\n'
        f'exec {tmp_path}/real "$@"\n'
    )
    hanging.chmod(0o755)
    bound = ["unshare", "--mount", "sh", "-c", f'mount --bind {hanging} /usr/lib/frr/bgpd && exec "$@"', "sh"]
    with subprocess.Popen([*bound, *argv("up", file)], stderr=subprocess.PIPE, text=True, cwd=ROOT) as up:
        while not (tmp_path / "begun").exists():
            assert up.poll() is None
        up.send_signal(signal.SIGINT)
        try:
            assert up.wait(60) == 130
        finally:
            up.kill()
