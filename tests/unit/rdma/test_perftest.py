"""Whose clock is believed: perftest's while it agrees with what was seen from outside, else the kernel's."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import OperationFailed
from lab.rdma import failure, perftest, sysfs
from lab.rdma.measure import ClockUnsteady
from lab.rdma.session import Exchange
from tests.unit.rdma.test_measure import PAIR


def seen(seconds: float) -> Exchange:
    nothing: Any = SimpleNamespace()
    return Exchange(PAIR, 1, nothing, nothing, Path("none"), 0, 100.0, 100.0 + seconds)


@pytest.mark.parametrize(
    ("said", "observed", "believed"),
    [(2.00, 2.02, 2.00), (0.050, 0.10, 0.050), (2.8, 2.0, 2.0), (math.inf, 2.0, 2.0), (1.0, 2.0, 2.0)],
)
def test_the_finer_clock_is_believed_until_it_is_contradicted(said: float, observed: float, believed: float) -> None:
    assert perftest._elapsed(seen(observed), said) == pytest.approx(believed)


def test_what_was_too_short_to_be_seen_cannot_correct_a_broken_clock() -> None:
    with pytest.raises(OperationFailed, match="h1 -> h2: it was over too soon to be timed: use more iterations"):
        perftest._elapsed(seen(0.1), math.inf)


def test_a_transfer_lasts_as_long_as_packets_and_is_silent_without_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([1.0, 2.0, 3.0, 4.0, 7.0])
    counted = {("t.h1.eth1", "sent"): iter([0, 0, 5, 9, 12]), ("t.h1.eth1", "rcvd"): iter([0, 0, 2, 3, 3])}
    monkeypatch.setattr(sysfs, "packets", lambda *what: next(counted[what]) if what in counted else 0)
    monkeypatch.setattr("lab.rdma.session.time.monotonic", lambda: next(clock))
    nothing: Any = SimpleNamespace()
    exchange = Exchange(PAIR, 1, nothing, nothing, Path("none"))
    assert [exchange.observe() for _ in range(5)] == [0.0, 1.0, 0.0, 0.0, 3.0]
    assert exchange.seconds == 4.0


def test_a_run_that_the_clock_spoilt_is_tried_again_and_given_up_at_last() -> None:
    folders: list[Path] = []

    def attempt(folder: Path) -> str:
        folders.append(folder)
        if len(folders) < 3:
            raise failure.unsteady(PAIR)
        return "measured"

    assert perftest._steadily(attempt) == "measured"
    assert len(set(folders)) == 3
    assert not any(folder.exists() for folder in folders)

    def never(folder: Path) -> str:
        folders.append(folder)
        raise failure.unsteady(PAIR)

    with pytest.raises(ClockUnsteady, match="h1 -> h2: the CPU's clock is too unsteady"):
        perftest._steadily(never)
    assert len(folders) == 6


def test_other_failures_are_not_tried_again() -> None:
    calls: list[Path] = []

    def attempt(folder: Path) -> str:
        calls.append(folder)
        raise OperationFailed("no")

    with pytest.raises(OperationFailed, match="no"):
        perftest._steadily(attempt)
    assert len(calls) == 1
