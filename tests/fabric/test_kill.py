"""``kill -9`` at a hundred random moments of up and down, and nothing is ever left."""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.fabric import snapshot
from tests.fabric.command import rocelab, rocelab_json, running

pytestmark = [pytest.mark.fabric, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 100
INTERRUPTS = 30
START_UP = 0.5
"""Seconds, more than Python needs before the signals have handlers."""
SEED = 20261120
TEXT = """
name: doomed
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, rdma: false}
"""


def _end_after(command: tuple[str | Path, ...], seconds: float, number: signal.Signals) -> bool:
    """Run a command and send it the signal unless it ends before; says whether it was sent."""
    with running(*command) as process:
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            process.communicate()
            return True
    return False


@pytest.fixture
def doomed(tmp_path: Path) -> Path:
    file = tmp_path / "doomed.yaml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def durations(doomed: Path) -> dict[tuple[str | Path, ...], float]:
    """How long each command takes when nobody disturbs it."""
    seconds: dict[tuple[str | Path, ...], float] = {}
    for command in (("up", doomed), ("down", "doomed")):
        began = time.monotonic()
        rocelab(*command)
        seconds[command] = time.monotonic() - began
    return seconds


def test_nothing_survives_kill_and_down(durations: dict[tuple[str | Path, ...], float]) -> None:
    before = snapshot.take()
    chance = random.Random(SEED)
    killed = 0
    while killed < KILLS:
        for command, duration in durations.items():
            if _end_after(command, chance.uniform(0, duration), signal.SIGKILL):
                killed += 1
                break
        rocelab("down", "--all")
        assert before.differences(snapshot.take()) == [], f"after kill {killed} of {command}"


def test_an_interrupted_up_undoes_itself(durations: dict[tuple[str | Path, ...], float]) -> None:
    before = snapshot.take()
    chance = random.Random(SEED)
    (up, duration), (down, _) = durations.items()
    for attempt in range(INTERRUPTS):
        number = chance.choice((signal.SIGINT, signal.SIGTERM))
        _end_after(up, chance.uniform(START_UP, duration), number)
        # A signal that comes when all is done finds a whole fabric, and leaves it.
        if [fabric["state"] for fabric in rocelab_json("ls")] == ["up"]:
            rocelab(*down)
        assert before.differences(snapshot.take()) == [], f"after {number.name} {attempt}"
