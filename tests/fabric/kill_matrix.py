"""A command killed at every one of its system calls, once before and once after it, and what ``down`` then leaves."""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.fabric import snapshot
from tests.fabric.command import injected, rocelab
from tests.fabric.injected import SORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.fabric.snapshot import Snapshot

OUTCOMES: Final = ("killed, nothing left", "killed, something left", "ended before")
MOMENTS: Final = ("before", "after")
_SETTLING: Final = 5.0
"""Seconds in which the kernel frees what nobody has any more."""


def every(numbers: Mapping[str, int]) -> list[str]:
    """Each call, and both moments."""
    return [
        f"{call}:{n}:{moment}" for call, number in numbers.items() for n in range(1, number + 1) for moment in MOMENTS
    ]


def walk(
    words: tuple[str | Path, ...],
    prepare: Callable[[], object],
    chosen: Callable[[Mapping[str, int]], Iterable[str]] = every,
) -> tuple[dict[str, Counter[str]], list[str]]:
    """How often each call came to each of ``OUTCOMES``, and what was left; ``prepare`` comes before each kill.

    Which kills there are is ``chosen`` by how often the command makes each call when nobody kills it.
    """
    before = snapshot.take()
    prepare()
    said = injected("journal:0:before:count", *words).stderr.splitlines()[-1]
    numbers = {call: int(number) for call, number in (pair.split("=") for pair in said.split())}
    rocelab("down", "--all")
    outcomes: dict[str, Counter[str]] = {call: Counter() for call in SORTS}
    left: list[str] = []
    for trap in chosen(numbers):
        prepare()
        killed = injected(f"{trap}:SIGKILL", *words).returncode == -signal.SIGKILL
        rocelab("down", "--all")
        differences = _differences(before)
        left += [f"{trap}: {line}" for line in differences]
        outcomes[trap.partition(":")[0]][OUTCOMES[2 - killed - (killed and not differences)]] += 1
    return outcomes, left


def _differences(before: Snapshot) -> list[str]:
    """What there is that was not, and the reverse, when the kernel has had its time."""
    deadline = time.monotonic() + _SETTLING
    while (differences := before.differences(snapshot.take())) and time.monotonic() < deadline:
        pass
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
