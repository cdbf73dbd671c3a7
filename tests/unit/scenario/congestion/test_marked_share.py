"""The share of marks that a port's counters have, and that its thresholds and sampled depths give."""

from __future__ import annotations

from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lab.errors import UsageError
from lab.scenario.congestion import MarkedShare, marked_share

PACKET = 1000
RAMP = (20_000, 30_000)


def share_of(depths: list[int], packets: int, marked: int) -> MarkedShare:
    """The share of a port with these sampled depths and counters, in a phase."""

    def series(values: list[int]) -> Any:
        during = SimpleNamespace(values=np.array(values, np.uint64), delta=lambda: values[-1] - values[0])
        return SimpleNamespace(during=lambda _: during)

    port: Any = SimpleNamespace(
        depth=lambda _: series(depths), tx_packets=lambda _: series([7, 7 + packets]),
        marked=lambda _: series([3, 3 + marked]),
    )  # fmt: skip
    within: Any = SimpleNamespace(name="observe")
    return marked_share(port, within, RAMP, PACKET)


def test_a_packet_finds_the_queue_without_itself() -> None:
    found = share_of([0, 500, 23_500, 28_500], 400, 100)
    assert (found.share, found.depth) == (0.25, 26_000)
    assert found.theory == pytest.approx((0.25 + 0.75) / 2)
    assert found.chance == pytest.approx(sqrt(0.25 * 0.75 / 400))
    assert found.deviation == pytest.approx(sqrt(0.25**2 / 2 + 0.5 * 0.5 / 400))


def test_no_more_than_all_are_marked_above_kmax_and_none_below_kmin() -> None:
    assert share_of([90_000], 10, 10).theory == 1
    assert share_of([21_000], 10, 0).theory == 0


def test_packets_that_were_marked_and_wait_still_are_no_error() -> None:
    found = share_of([90_000], 10, 12)
    assert (found.share, found.chance) == (1.2, 0)


def test_a_queue_that_is_always_empty_has_no_share() -> None:
    with pytest.raises(UsageError, match="no packet waits in observe"):
        share_of([0, 900], 10, 0)
