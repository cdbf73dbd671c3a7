"""Two QPs that share a link unfairly: the outcome with TIMELY and with DCQCN, by their models alone.

Zhu et al., ECN or Delay, CoNEXT 2016: with TIMELY the split that remains depends on the start and may be any; DCQCN
leads to equal shares. tests/vm/congestion/test_timely_split.py applies the same line to ports.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.models.dcqcn.nvidia import NvidiaReactionPoint, NvidiaRegisters
from tests.models.shared_link import DcqcnSender, SharedLink, TimelySender, first_share, stays_unfair
from tests.models.timely import TimelyParameters

LINK = SharedLink(100e6)
TIMELY = TimelyParameters(LINK.rate, step=100e3, low=5e-3, high=50e-3, minimum_rtt=2e-3, minimum=35e3)
"""The registers for 10 Gb/s, scaled to a hundredth of it."""
PAPER = NvidiaRegisters(
    line_rate=round(LINK.rate),
    time_reset=5_500_000,
    byte_reset=10_000_000,
    threshold=5,
    ai_rate=400_000,
    hai_rate=2_000_000,
    min_rate=1_000_000,
    dce_tcp_g=1020,
    dce_tcp_rtt=5_500_000,
    monitor_period=0,
    clamp=True,
    exact=True,
    forgets=True,
)
JUDGED = 1.5


def starts(seed: int) -> tuple[float, float]:
    """Return start times in seconds, up to 320 ms apart, as with perftest."""
    chance = random.Random(seed)
    return 0.02 * chance.random(), 0.02 * chance.random() + 0.1 * (seed % 4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [0.7, 0.3])
def test_timely_keeps_half_of_the_distance(first: float, seed: int) -> None:
    senders = (TimelySender(TIMELY, first * LINK.rate), TimelySender(TIMELY, (1 - first) * LINK.rate))
    share = first_share(LINK, senders, starts(seed), seed=seed, until=3, judged=JUDGED)
    assert stays_unfair(share, first)


@pytest.mark.parametrize("seed", range(4))
def test_dcqcn_does_not(seed: int) -> None:
    one, other = (
        DcqcnSender(
            NvidiaReactionPoint(replace(PAPER, rate_on_first_cnp=round(share * LINK.rate))), LINK.rate, LINK.frame
        )
        for share in (0.7, 0.3)
    )
    share = first_share(LINK, (one, other), starts(seed), seed=seed, until=8, judged=JUDGED)
    assert not stays_unfair(share, 0.7)


def test_the_line_is_half_the_distance() -> None:
    assert [stays_unfair(share, 0.7) for share in (0.65, 0.61, 0.59, 0.5, 0.41, 0.39, 0.0)] == [
        True, True, False, False, False, True, True,
    ]  # fmt: skip
