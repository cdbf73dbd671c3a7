"""The judge of ``./scripts/soak``: what it must call growth, and what it must not."""

from __future__ import annotations

import random

import pytest

from tests.bench.soak import KIB, Sample, growth, judged

CYCLES = 200


def samples(leaked: float = 0, processes: int = 0) -> list[Sample]:
    """Memory that moves by half a mebibyte at random, and so much more each cycle."""
    chance = random.Random(4)
    return [
        Sample(
            {"processes": 3 + (processes if at > CYCLES // 2 else at % 2)},
            {"slab": int(chance.gauss(64 * 2**20, 2**19) + leaked * at)},
        )
        for at in range(CYCLES)
    ]


def test_a_host_that_only_moves_does_not_grow() -> None:
    assert judged(samples()) == []


def test_a_leak_is_told_with_its_size() -> None:
    (line,) = judged(samples(leaked=32 * KIB))
    assert line.startswith("slab: ")
    assert float(line.split()[1]) == pytest.approx(32, abs=3)


def test_a_thing_too_many_is_told() -> None:
    assert judged(samples(processes=2)) == ["processes: 4 at first, 5 at last"]


def test_the_slope_is_that_of_a_line_and_its_error_that_of_the_textbook() -> None:
    """1, 3, 2, 5, 4: slope 0.8, residual sum of squares 3.6 over 3 degrees of freedom, 10 of the squares of x."""
    found = growth([1, 3, 2, 5, 4])
    assert found.per_cycle == pytest.approx(0.8)
    assert found.error == pytest.approx((3.6 / 3 / 10) ** 0.5)
    assert not found.grows
