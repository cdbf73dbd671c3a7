"""Tests and results: ranges are checked when they are made, statistics agree with their definitions."""

from __future__ import annotations

import statistics
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import OperationFailed, UsageError
from lab.kernel.process.netns import Namespace
from lab.rdma.measure import BandwidthResult, BandwidthTest, LatencyTest, Nic, Pair, percentile, summarise, total


def nic(host: str, address: str = "10.0.0.1", interface: str = "eth1", *, only: bool = True) -> Nic:
    return Nic(host, interface, Namespace(f"rl-t-{host}"), f"t.{host}.{interface}", ip_address(address), only)


PAIR = Pair(nic("h1"), nic("h2"))


def test_interfaces_and_pairs_print_as_people_write_them() -> None:
    assert str(PAIR) == "h1 -> h2"
    assert str(nic("h1", only=False)) == "h1:eth1"


def test_a_host_has_no_fabric_to_itself() -> None:
    with pytest.raises(UsageError, match="h1:eth1 and h1:eth2 are the same host"):
        Pair(nic("h1", only=False), nic("h1", interface="eth2", only=False))


def test_a_pair_speaks_one_ip_version() -> None:
    with pytest.raises(UsageError, match=r"mixes 10\.0\.0\.1 and fdc0::1"):
        Pair(nic("h1"), nic("h2", "fdc0::1"))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"size": 0}, "message size 0"),
        ({"size": 8 * 2**20 + 1}, "message size"),
        ({"tclass": 256}, "traffic class 256"),
        ({"mtu": 1500}, "path MTU 1500 does not exist.*256, 512, 1024, 2048, 4096"),
        ({"timeout": 0}, "QP timeout 0"),
        ({"qps": 0}, "0 QPs"),
        ({"duration": 0}, "duration 0 s"),
        ({"duration": None}, "either a duration or"),
        ({"iterations": 100}, "either a duration or"),
        ({"duration": None, "iterations": 4}, "4 iterations"),
        ({"tx_depth": 0}, "send queue depth 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        BandwidthTest(**values)


def test_latency_takes_a_bounded_number_of_samples() -> None:
    for iterations in (4, 1_000_001):
        with pytest.raises(UsageError, match="iterations are out of range"):
            LatencyTest(iterations=iterations)


def test_percentiles_are_samples_by_nearest_rank() -> None:
    ordered = [float(value) for value in range(1, 1001)]
    assert [percentile(ordered, p) for p in (50, 99, 99.9, 100)] == [500, 990, 999, 1000]
    assert percentile([7.0], 99.9) == 7.0


@given(st.lists(st.floats(1e-7, 10), min_size=1, max_size=200))
def test_statistics_agree_with_an_independent_implementation(samples: list[float]) -> None:
    result = summarise(PAIR, LatencyTest(), samples, 4096)
    assert result.avg_s == pytest.approx(statistics.fmean(samples))
    assert result.stdev_s == pytest.approx(statistics.pstdev(samples), abs=1e-9)
    assert (result.min_s, result.max_s, result.samples) == (min(samples), max(samples), len(samples))
    assert result.p50_s == statistics.median_low(samples)
    for share, value in ((0.99, result.p99_s), (0.999, result.p999_s)):
        assert sum(sample <= value for sample in samples) >= share * len(samples) - 1e-9
        assert sum(sample < value for sample in samples) < share * len(samples)


def test_no_sample_is_no_result() -> None:
    with pytest.raises(OperationFailed, match="h1 -> h2: nothing was measured"):
        summarise(PAIR, LatencyTest(), [], 4096)


def carried(messages: int, duration: float, began: float = 0.0) -> BandwidthResult:
    rate = round(messages * 65536 * 8 / duration)
    return BandwidthResult("h1", "h2", "write", rate, messages, duration, began, 65536, 1, 4096, 106)


def test_pairs_on_one_link_never_add_up_to_more_than_it_carries() -> None:
    """Two times 60 messages of 64 KiB are 62.91 Mb: what 100 Mb/s of link needs 0.629 s for, and took 0.65 s for."""
    both = [carried(60, 0.602), carried(60, 0.585, began=0.065)]
    assert sum(one.goodput_bps for one in both) > 100_000_000  # the sum of rates over windows that differ
    every = total(both)
    assert every.messages == 120
    assert every.window_s == pytest.approx(0.65)
    assert every.goodput_bps == pytest.approx(2 * 60 * 65536 * 8 / 0.65)
    assert every.goodput_bps < 100_000_000


def test_the_window_of_all_ends_with_the_last_pair_not_with_the_one_that_began_last() -> None:
    assert total([carried(100, 5.0), carried(10, 1.0, began=2.0)]).window_s == 5.0
    assert total([carried(100, 5.0)]).goodput_bps == carried(100, 5.0).goodput_bps
