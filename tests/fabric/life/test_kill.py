"""``kill -9`` at system calls of up and down, and at random moments, and nothing is ever left.

CI kills each command at the first, the middle and the last system call of each sort. At every one, and at more random
moments, it is killed by the tests that are ``long``.
"""

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from tests.fabric import snapshot
from tests.fabric.command import hosts, rocelab, rocelab_json, running
from tests.fabric.kill_matrix import OUTCOMES, every, printed, some, walk

pytestmark = [pytest.mark.fabric, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLED_AT = {
    "up": {"setns", "unshare", "mount", "link", "netlink", "journal", "clone", "mkdir", "symlink"},
    "down": {"setns", "umount", "unlink", "rmdir"},
}
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
    """The time that each command takes undisturbed."""
    seconds: dict[tuple[str | Path, ...], float] = {}
    for command in (("up", doomed), ("down", "--fabric", "doomed")):
        began = time.monotonic()
        rocelab(*command)
        seconds[command] = time.monotonic() - began
    return seconds


LONG = pytest.mark.long


@pytest.mark.parametrize("chosen", [some, pytest.param(every, marks=LONG)], ids=["some", "every"])
@pytest.mark.parametrize("command", ["up", "down"])
def test_nothing_survives_a_kill_at_any_system_call(
    command: str, chosen: Callable[[Mapping[str, int]], Iterable[str]], tmp_path: Path
) -> None:
    """A name in the journal and not yet in the kernel, a file and no mount, a program and no cgroup, and so on."""
    file = hosts(tmp_path, "doomed", "h1", "h2")
    words: tuple[str | Path, ...] = ("up", file) if command == "up" else ("down", "--fabric", "doomed")
    outcomes, left = walk(words, lambda: command == "down" and rocelab("up", file), chosen)
    print(printed(outcomes))
    assert left == []
    assert {call for call, counted in outcomes.items() if counted[OUTCOMES[0]]} >= KILLED_AT[command]


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=LONG)])
def test_commands_at_once_leave_nothing_of_each_other(rounds: int, tmp_path: Path) -> None:
    """Fabrics whose nodes would have had the same names, the same fabric twice, and both ways at once."""
    before = snapshot.take()
    files = [hosts(tmp_path, "doomed", "b-c", "d"), hosts(tmp_path, "doomed-b", "c", "d")]
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            ups = [stack.enter_context(running("up", file)) for file in (*files, files[0])]
            codes = sorted(up.wait(120) for up in ups)
        assert codes == [0, 0, 2]
        assert {fabric["fabric"]: fabric["state"] for fabric in rocelab_json("ls")} == {
            "doomed": "up",
            "doomed-b": "up",
        }
        with contextlib.ExitStack() as stack:
            ends = [stack.enter_context(running("down", "--fabric", name)) for name in ("doomed", "doomed-b")]
            ends.append(stack.enter_context(running("up", files[0])))
            assert [end.wait(120) for end in ends[:2]] == [0, 0]
            assert ends[2].wait(120) in {0, 2}
        rocelab("down", "--all")
        assert before.differences(snapshot.take()) == []


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=LONG)])
def test_nothing_survives_kill_and_down(kills: int, durations: dict[tuple[str | Path, ...], float]) -> None:
    before = snapshot.take()
    chance = random.Random(SEED)
    (up, _), (down, _) = durations.items()
    killed = 0
    while killed < kills:
        command = (up, down)[killed % 2]
        if command == down:
            rocelab(*up)
        killed += _end_after(command, chance.uniform(0, durations[command]), signal.SIGKILL)
        rocelab("down", "--all")
        assert before.differences(snapshot.take()) == [], f"after kill {killed} of {command}"


@pytest.mark.parametrize("interrupts", [4, pytest.param(30, marks=LONG)])
def test_an_interrupted_up_undoes_itself(interrupts: int, durations: dict[tuple[str | Path, ...], float]) -> None:
    before = snapshot.take()
    chance = random.Random(SEED)
    (up, duration), (down, _) = durations.items()
    for attempt in range(interrupts):
        number = chance.choice((signal.SIGINT, signal.SIGTERM))
        _end_after(up, chance.uniform(START_UP, duration), number)
        # A signal that comes when all is done finds a whole fabric, and leaves it.
        if [fabric["state"] for fabric in rocelab_json("ls")] == ["up"]:
            rocelab(*down)
        assert before.differences(snapshot.take()) == [], f"after {number.name} {attempt}"
