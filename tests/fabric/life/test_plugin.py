"""The plug-in with real fabrics: the example that people copy passes, failures explain themselves, nothing is left.

Judges: pytest's own report, and the namespaces that are there afterwards.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.backends.fabric_state import all_fabrics
from tests.patience import PATIENCE, until
from tests.pytest_run import EXAMPLE, ROOT, run, words

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKEN: Final = """
import pytest

pytestmark = pytest.mark.rocelab(topology="two-hosts.yaml", scope="session")


def test_counters(fabric):
    with fabric.counting() as counted:
        fabric.ping("h1", "h2", times=4)
    assert counted.count("rx_packets", "leaf1:swp2") == 0


def test_packets(fabric):
    with fabric.capturing("h1--leaf1") as packets:
        fabric.ping("h1", "h2", times=2)
    assert packets.count("src h1") == 1


def test_pings(fabric, fault, recording):
    with recording("h1--leaf1") as run, run.phase("cut"), fault("link-cut", "h1--leaf1"):
        answers = fabric.ping("h1", "h2")
    read = run.read()
    assert [told["did"] for told in read.truth()] == ["inject", "heal"]
    assert [command.argv[0] for command in read.commands] == ["ping"]
    assert fabric.ping("h1", "h2") == 1
    assert answers == 1
"""
WAITING: Final = """
import pytest


@pytest.mark.rocelab(topology="two-hosts.yaml")
def test_it(fabric, fault):
    fault("global-pause", "h1")
    fabric.run("h1", "sleep", "600", timeout=700)
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "copied"))


def shows(text: str, lines: Sequence[str]) -> None:
    for line in lines:
        assert line in text


@pytest.mark.usefixtures("unchanged")
def test_the_example_passes(copied: Path) -> None:
    done = run(copied, "test_reaching.py", "-q")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert all_fabrics() == []


@pytest.mark.usefixtures("unchanged")
def test_what_fails_says_what_was_seen(copied: Path) -> None:
    (copied / "test_broken.py").write_text(BROKEN, encoding="utf-8")
    done = run(copied, "test_broken.py")
    assert "3 failed" in done.stdout, done.stdout
    shows(
        done.stdout,
        [
            "(rx_packets of leaf1:swp2) == 0",
            "leaf1:swp2 rx_packets: ",
            "assert 2 (packets like src h1 at h1--leaf1) == 1",
            "h1:eth1  10.0.0.1 > 10.0.0.3  ICMP",
            "assert 0 (answers of h2 to 1 pings of h1) == 1",
            "1 packets transmitted, 0 received",
            "fabric two-hosts-t",
        ],
    )


@pytest.mark.usefixtures("unchanged")
def test_a_run_that_is_killed_leaves_no_fabric(copied: Path) -> None:
    (copied / "test_waiting.py").write_text(WAITING, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words("test_waiting.py", "-q"), cwd=copied, env=environment) as running:
        until(lambda: any(state.faults.exists() and state.faults.stat().st_size for state in all_fabrics()))
        with contextlib.ExitStack() as stack:
            # What it has started takes the fabric down, and ends somewhat later.
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii").split()
            descriptors: list[int] = []
            for child in children:
                with contextlib.suppress(ProcessLookupError):  # a tool's, which has ended
                    descriptors.append(os.pidfd_open(int(child)))
                    stack.callback(os.close, descriptors[-1])
            running.send_signal(signal.SIGKILL)
            running.wait(PATIENCE)
            until(lambda: all_fabrics() == [])
            until(lambda: len(select.select(descriptors, [], [], 0)[0]) == len(descriptors))
