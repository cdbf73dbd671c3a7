"""When faults come and go, by a clock of the test's own."""

import itertools
import time

import pytest

from lab.errors import UsageError
from lab.faults import timing
from lab.faults.timing import Timing


def beginnings(count: int, **words: float) -> list[float]:
    return list(itertools.islice(Timing(**words).beginnings(), count))  # type: ignore[arg-type]


def test_it_comes_regularly_or_once() -> None:
    assert beginnings(9, after=1, lasting=0.5) == [1]
    assert beginnings(3, after=1, lasting=0.5, every=2) == [1, 3, 5]
    assert beginnings(9, lasting=0.5, every=2, times=2) == [0, 2]


def test_with_a_seed_it_comes_at_random_and_the_same_again() -> None:
    drawn = beginnings(4000, lasting=0.1, every=2, seed=7)
    assert drawn == beginnings(4000, lasting=0.1, every=2, seed=7)
    assert drawn != beginnings(4000, lasting=0.1, every=2, seed=8)
    gaps = [later - earlier for earlier, later in itertools.pairwise(drawn)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    # Of an exponential distribution mean and deviation are the same; 4 standard errors of 4000 draws are 6.3%.
    assert mean == pytest.approx(2, rel=0.063)
    assert deviation == pytest.approx(2, rel=0.13)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"times": 2}, "--times and --seed are of what comes again: give --every too"),
        ({"seed": 2}, "--times and --seed are of what comes again: give --every too"),
        ({"every": 2}, "--every needs the duration of each repetition: add --for"),
        ({"every": 2, "lasting": 2}, "it would last 2 s of every 2 s: make --for shorter"),
        ({"every": 2, "lasting": 1, "times": 0}, "--times 0 is none at all: give 1 or more"),
    ],
)
def test_what_does_not_fit_together_is_told(words: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        Timing(**words)
    assert str(refused.value) == told


class Clock:
    """Passes by what is waited for, until it says no."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits: int = 1000) -> None:
        self.now, self._waits = 100.0, waits
        self.said: list[tuple[str, float]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self._waits -= 1
        return self._waits >= 0

    def run(self, **words: float) -> list[tuple[str, float]]:
        timing.attend(
            Timing(**words),  # type: ignore[arg-type]
            lambda: self.said.append(("begin", self.now - 100)),
            lambda: self.said.append(("end", self.now - 100)),
            self.wait,
        )
        return self.said


def test_each_beginning_has_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Clock(monkeypatch).run(after=1, lasting=0.5, every=2, times=2) == [
        ("begin", 1), ("end", 1.5), ("begin", 3), ("end", 3.5),
    ]  # fmt: skip


def test_what_is_to_last_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Clock(monkeypatch).run(after=3) == [("begin", 3)]


def test_whoever_is_interrupted_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Clock(monkeypatch, waits=1).run(lasting=5, every=9) == [("begin", 0), ("end", 5)]
    assert Clock(monkeypatch, waits=0).run(after=5, lasting=5) == []


def test_what_fails_while_it_is_there_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(clock, "wait", lambda seconds: seconds == 0 or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clock.run(lasting=5)
    assert [what for what, _ in clock.said] == ["begin", "end"]
