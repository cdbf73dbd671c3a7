"""A command killed at every one of its system calls, once before and once after it, and what ``down`` then leaves."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

from tests.fabric import snapshot
from tests.fabric.command import injected, rocelab
from tests.fabric.injected import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OUTCOMES = ("killed, nothing left", "killed, something left", "ended before")


def walk(words: tuple[str | Path, ...], prepare: Callable[[], object]) -> tuple[dict[str, Counter[str]], list[str]]:
    """How often each call came to each of ``OUTCOMES``, and what was left; ``prepare`` comes before each kill."""
    before = snapshot.take()
    prepare()
    said = injected("journal:0:before:count", *words).stderr.splitlines()[-1]
    numbers = {call: int(number) for call, number in (pair.split("=") for pair in said.split())}
    rocelab("down", "--all")
    outcomes: dict[str, Counter[str]] = {call: Counter() for call in CALLS}
    left: list[str] = []
    for call, number in numbers.items():
        for trap in (f"{call}:{n}:{moment}" for n in range(1, number + 1) for moment in ("before", "after")):
            prepare()
            killed = injected(f"{trap}:SIGKILL", *words).returncode == -signal.SIGKILL
            rocelab("down", "--all")
            differences = before.differences(snapshot.take())
            left += [f"{trap}: {line}" for line in differences]
            outcomes[call][OUTCOMES[2 - killed - (killed and not differences)]] += 1
    return outcomes, left


def printed(outcomes: dict[str, Counter[str]]) -> str:
    """The matrix, a line for each call that the command makes."""
    lines = ["".join(f"{head:>24}" for head in ("call", *OUTCOMES))]
    lines += [
        "".join(f"{cell:>24}" for cell in (call, *(counted[outcome] for outcome in OUTCOMES)))
        for call, counted in outcomes.items()
        if counted
    ]
    return "\n".join(lines)
