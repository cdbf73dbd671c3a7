"""The timing of faults: a delay, a duration, and repetitions."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Timing:
    """When a fault is injected and how long it lasts, in seconds.

    The first injection is ``after`` seconds from now. Each lasts ``lasting`` and is repeated every ``every`` seconds,
    ``times`` in all, or without end. With a ``seed`` the intervals between injections are exponentially distributed
    with that mean (a Poisson process), and reproducible. An injection that would overlap the previous one follows it
    immediately. Raises UsageError for an invalid combination.
    """

    after: float = 0.0
    lasting: float | None = None
    every: float | None = None
    times: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.every is None and (self.times is not None or self.seed is not None):
            raise UsageError("--times and --seed are of what comes again", "give --every too")
        if self.every is not None and self.lasting is None:
            raise UsageError("--every needs the duration of each repetition", "add --for")
        if self.every is not None and self.lasting is not None and self.seed is None and self.lasting >= self.every:
            raise UsageError(
                f"it would last {format_time(self.lasting)} of every {format_time(self.every)}", "make --for shorter"
            )
        if self.times is not None and self.times < 1:
            raise UsageError(f"--times {self.times} is none at all", "give 1 or more")

    @property
    def attended(self) -> bool:
        """Whether a process must stay to inject or heal the fault."""
        return bool(self.after) or self.lasting is not None

    def beginnings(self) -> Iterator[float]:
        """Yield the seconds from now until each injection; a single one without repetition."""
        due = self.after
        yield due
        drawn = random.Random(self.seed)  # noqa: S311 - nobody guesses at it
        number = 1
        while self.every is not None and (self.times is None or number < self.times):
            due += self.every if self.seed is None else drawn.expovariate(1 / self.every)
            yield due
            number += 1

    def __str__(self) -> str:
        words = [f"after {format_time(self.after)}"] if self.after else []
        if self.lasting is not None:
            words.append(f"for {format_time(self.lasting)}")
        if self.every is not None:
            words.append(f"every {format_time(self.every)}")
        if self.times is not None:
            words.append(counted(self.times, "time"))
        return ", ".join(words)


def attend(timing: Timing, begin: Callable[[], None], end: Callable[[], None], wait: Callable[[float], bool]) -> None:
    """Call ``begin`` and ``end`` by a timing. Each ``begin`` is followed by ``end``, even after an error.

    A fault without a duration has no ``end``. ``wait`` waits for the given seconds and returns whether to continue.
    """
    began = time.monotonic()
    for due in timing.beginnings():
        if not wait(max(0.0, began + due - time.monotonic())):
            return
        begin()
        if timing.lasting is None:
            return
        try:
            going = wait(timing.lasting)
        finally:
            end()
        if not going:
            return
