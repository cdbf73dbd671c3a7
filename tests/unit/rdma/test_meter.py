"""Counters of the measured window only: neither of what warms up, nor of what runs out, nor of a run before."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.rdma import device_counters
from lab.rdma.perftest_session import Exchange
from lab.rdma.window_counters import MeasureWindow, Meter
from tests.unit.rdma.test_measure import PAIR

PACKETS_PER_SECOND = 1000


class Clock:
    """A clock that tests turn, and a device that sends a thousand packets a second by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.ends = math.inf
        monkeypatch.setattr("lab.rdma.window_counters.time.monotonic", lambda: self.now)
        monkeypatch.setattr(device_counters, "Open", lambda _names: self)

    def read(self) -> dict[str, dict[str, int]]:
        return {"dev": {"sent_pkts": round(min(self.now, self.ends) * PACKETS_PER_SECOND)}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def exchange(began: float) -> Exchange:
    nothing: Any = SimpleNamespace()
    return Exchange(PAIR, 1, nothing, nothing, Path("none"), began_at=began)


def run(window: MeasureWindow, clock: Clock, until: float) -> None:
    """Look as often as the window asks for, and no more often than a session does."""
    while clock.now < until:
        clock.now += min(0.25, max(window.look(), 0.001))


def test_only_the_window_is_counted(clock: Clock) -> None:
    """Traffic from 100 s to 107 s, measured from 101 s to 106 s: 5,000 packets, not 7,000."""
    meter = Meter({"dev": "h1"})
    window = MeasureWindow([exchange(100.0)], 1.0, 5.0, meter)
    run(window, clock, 107.0)
    assert window.ended
    assert meter.seconds == pytest.approx(5.0, abs=0.01)
    assert meter.moved()["h1"]["sent_pkts"] == pytest.approx(5 * PACKETS_PER_SECOND, rel=0.01)


def test_the_window_of_several_is_from_the_first_to_the_last(clock: Clock) -> None:
    pairs = [exchange(100.0), exchange(0.0)]
    meter = Meter({"dev": "h1"})
    window = MeasureWindow(pairs, 1.0, 5.0, meter)
    run(window, clock, 106.5)
    assert not window.ended  # the second has not sent a packet yet
    pairs[1].began_at = 106.5
    run(window, clock, 113.0)
    assert meter.seconds == pytest.approx(11.5, abs=0.03)  # it looks every 20 ms for the first packet


def test_a_rate_is_of_the_window(clock: Clock) -> None:
    meter = Meter({"dev": "h1"})
    window = MeasureWindow([exchange(100.0)], 1.0, 5.0, meter)
    assert window.rate("dev", "sent_pkts") is None
    run(window, clock, 104.0)
    assert not window.ended
    run(window, clock, 107.0)
    assert window.rate("dev", "sent_pkts") == pytest.approx(PACKETS_PER_SECOND, rel=0.01)
    assert window.rate("other", "sent_pkts") is None


def test_a_rate_that_is_read_after_the_transfer_is_of_the_transfer(clock: Clock) -> None:
    """6,000 packets, from 101 s until it is over at 107 s; read at 120 s."""
    clock.ends = 107.0
    window = MeasureWindow([exchange(100.0)], 1.0, 5.0, Meter({"dev": "h1"}))
    run(window, clock, 105.9)
    clock.now = 120.0
    window.look()
    assert window.ended
    assert window.rate("dev", "sent_pkts") == pytest.approx(PACKETS_PER_SECOND, rel=0.01)


def test_a_window_that_begins_after_the_transfer_knows_no_rate(clock: Clock) -> None:
    window = MeasureWindow([exchange(100.0)], 1.0, 5.0, Meter({"dev": "h1"}))
    clock.now = 108.0
    window.look()
    window.look()
    assert window.ended
    assert window.rate("dev", "sent_pkts") is None


def test_before_the_first_packet_nothing_is_counted(clock: Clock) -> None:
    window = MeasureWindow([exchange(0.0)], 1.0, 5.0, Meter({"dev": "h1"}))
    run(window, clock, 120.0)
    assert not window.begun


def test_a_run_that_is_tried_again_counts_from_its_own_beginning(clock: Clock) -> None:
    meter = Meter({"dev": "h1"})
    clock.now = 110.0
    meter.end()
    assert meter.moved() == {"h1": {"sent_pkts": 10 * PACKETS_PER_SECOND}}
    meter.begin()
    assert meter.moved() == {"h1": {}}
    clock.now = 112.0
    meter.end()
    assert meter.moved() == {"h1": {"sent_pkts": 2 * PACKETS_PER_SECOND}}


def test_what_was_sent_is_received_dropped_or_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel had it on one leaf: of 57,308 packets that arrived at a port rxe counted 56,095."""
    device = {"dev": {"sent_pkts": 100, "rcvd_pkts": 10}}
    dropped = 7
    monkeypatch.setattr(
        device_counters, "Open", lambda _names: SimpleNamespace(read=lambda: {"dev": dict(device["dev"])})
    )
    meter, unknown = Meter({"dev": "h1"}, lambda: dropped), Meter({"dev": "h1"})
    device["dev"] = {"sent_pkts": 57_408, "rcvd_pkts": 56_105}
    dropped = 10
    for each in (meter, unknown):
        each.end()
    what = "57308 packets sent = 56095 received + 3 dropped by ports + 1210 under way"
    assert str(meter.balance()) == f"{what} (more at the end than at the beginning)"
    assert unknown.balance().under_way == 1213
    device["dev"]["rcvd_pkts"] = 58_410
    meter.end()
    assert str(meter.balance()).endswith(
        "58400 received + 3 dropped by ports - 1095 under way (more at the beginning)"
    )
