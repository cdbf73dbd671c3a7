"""A command killed at every one of its system calls, once before and once after it, and what ``down`` then leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.fabric import snapshot
from tests.fabric.command import injected, rocelab, rocelab_json
from tests.fabric.injected import SORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.fabric.snapshot import Snapshot

OUTCOMES: Final = ("killed, nothing left", "killed, something left", "ended before")
MOMENTS: Final = ("before", "after")


def every(numbers: Mapping[str, int]) -> list[str]:
    """Each call, and both moments."""
    return [
        f"{call}:{n}:{moment}" for call, number in numbers.items() for n in range(1, number + 1) for moment in MOMENTS
    ]


def some(numbers: Mapping[str, int]) -> list[str]:
    """The first, the middle and the last call of each sort, and both moments."""
    ends = {call: sorted({1, (number + 1) // 2, number}) for call, number in numbers.items() if number}
    return [f"{call}:{n}:{moment}" for call, chosen in ends.items() for n in chosen for moment in MOMENTS]


def warm_up(file: Path) -> None:
    """Build a fabric once, which has the kernel load what it keeps."""
    rocelab("up", file)
    rocelab("down", "--all")


def walk(
    words: tuple[str | Path, ...],
    prepare: Callable[[], object],
    chosen: Callable[[Mapping[str, int]], Iterable[str]] = every,
    amiss: Callable[[], list[str]] | None = None,
) -> tuple[dict[str, Counter[str]], list[str]]:
    """How often each call came to each of ``OUTCOMES``, and what was left; ``prepare`` comes before each kill.

    Which kills there are is ``chosen`` by how often the command makes each call when nobody kills it. ``down`` comes
    after each, and the host may not be another one then; or what is ``amiss`` is told by somebody else.
    """
    judge = amiss or _taken_down(snapshot.take())
    prepare()
    said = injected("journal:0:before:count", *words).stderr.splitlines()[-1]
    numbers = {call: int(number) for call, number in (pair.split("=") for pair in said.split())}
    judge()
    outcomes: dict[str, Counter[str]] = {call: Counter() for call in SORTS}
    left: list[str] = []
    for trap in chosen(numbers):
        prepare()
        killed = injected(f"{trap}:SIGKILL", *words).returncode == -signal.SIGKILL
        differences = judge()
        left += [f"{trap}: {line}" for line in differences]
        outcomes[trap.partition(":")[0]][OUTCOMES[2 - killed - (killed and not differences)]] += 1
    return outcomes, left


def walk_drain(
    fabric: str, host: str, chosen: Callable[[Mapping[str, int]], Iterable[str]] = every
) -> tuple[dict[str, Counter[str]], list[str]]:
    """The same of ``qos set``, which gives a host's NIC a drain and takes it away again, and the command after it."""
    outcomes: dict[str, Counter[str]] = {call: Counter() for call in SORTS}
    left: list[str] = []
    for rate, other in (("5Mbit", "unlimited"), ("unlimited", "5Mbit")):
        told, found = walk(
            ("qos", "set", host, f"nic.drain={rate}"),
            partial(rocelab, "qos", "set", host, f"nic.drain={other}"),
            chosen,
            partial(_drain_amiss, fabric, host),
        )
        for call, counted in told.items():
            outcomes[call] += counted
        left += [f"nic.drain={rate}, {line}" for line in found]
    return outcomes, left


def devices(fabric: str, host: str) -> list[str]:
    """The names of a host's interfaces."""
    said = subprocess.run(
        ["ip", "-n", f"rl-{fabric}.{host}", "-json", "link"], capture_output=True, check=True
    ).stdout
    return [link["ifname"] for link in json.loads(said)]


def _drain_amiss(fabric: str, host: str) -> list[str]:
    """The parts of a host's NIC that iproute2 does not find as recorded."""
    port = rocelab_json("qos", "show", host)["nodes"][host]["ports"]["eth1"]
    listed = ["tc", "-n", f"rl-{fabric}.{host}", "filter", "show", "dev", "eth1", "ingress"]
    found = {
        "a drain": "rx-eth1" in devices(fabric, host),
        "packets led through it": "mirred"
        in subprocess.run(listed, capture_output=True, text=True, check=True).stdout,
    }
    kept = port["drain"] is not None
    return [*port["kernel_differs"], *(f"{what}: {seen}, not {kept}" for what, seen in found.items() if seen != kept)]


def _taken_down(before: Snapshot) -> Callable[[], list[str]]:
    def differences() -> list[str]:
        """The differences in both directions: added and missing."""
        rocelab("down", "--all")
        return before.differences(snapshot.take())

    return differences


def printed(outcomes: dict[str, Counter[str]]) -> str:
    """The matrix, a line for each call that the command makes."""
    lines = ["".join(f"{head:>24}" for head in ("call", *OUTCOMES))]
    lines += [
        "".join(f"{cell:>24}" for cell in (call, *(counted[outcome] for outcome in OUTCOMES)))
        for call, counted in outcomes.items()
        if counted
    ]
    return "\n".join(lines)
