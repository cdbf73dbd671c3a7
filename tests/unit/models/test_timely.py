"""TIMELY against its Algorithm 1, by hand."""

from __future__ import annotations

import itertools

import pytest

from tests.models.timely import TimelyParameters, timely_rates

US = 1e-6
P = TimelyParameters(10e9)


def rates(*rtts: float, start: float = 5e9) -> list[float]:
    return list(timely_rates(P, [rtt * US for rtt in rtts], start))


def test_below_t_low_the_rate_grows_whatever_the_gradient() -> None:
    assert rates(20, 30, 45) == pytest.approx([5e9, 5.01e9, 5.02e9])


def test_above_t_high_the_rate_shrinks_by_the_excess() -> None:
    """1 - 0.8 x (1 - 500 / 1000) = 0.6."""
    assert rates(600, 1000)[1] == pytest.approx(5e9 * 0.6)


def test_between_the_two_the_gradient_decides() -> None:
    """From 100 to 104 us: difference 0.875 x 4 = 3.5 us, gradient 0.175, so the rate is x 0.86."""
    assert rates(100, 104)[1] == pytest.approx(5e9 * (1 - 0.8 * 0.175))
    assert rates(104, 100)[1] == pytest.approx(5e9 + 10e6)


def test_after_five_calm_rtts_steps_are_five_times_as_large() -> None:
    found = rates(*[100] * 8)
    steps = [round((after - before) / 1e6) for before, after in itertools.pairwise(found)]
    assert steps == [10, 10, 10, 10, 50, 50, 50]


def test_a_steep_rtt_stops_at_the_minimum_and_never_below() -> None:
    assert rates(100, 400)[1] == P.minimum


def test_a_constant_rtt_keeps_an_unfair_split() -> None:
    """Zhu et al., ECN or Delay, CoNEXT 2016: any split is stable: all flows add the same steps."""
    fast, slow = (rates(*[100] * 20, start=start) for start in (7e9, 3e9))
    assert [one - other for one, other in zip(fast, slow, strict=True)] == [4e9] * 20
