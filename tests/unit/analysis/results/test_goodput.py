"""Goodput against arithmetic, and steps back of a timer that ran behind a pause."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.analysis.results.timeline_facts import spread
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import MS, NAK, START, requests, timed

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts


@pytest.mark.parametrize("count", [2, 5, 17, 1000])
@pytest.mark.parametrize("link", [10**8, 10**9])
def test_goodput_on_a_full_link_is_payload_over_wire(count: int, link: int) -> None:
    """Frames back to back: of each 1082 bytes, and 24 of preamble, FCS and gap, 1024 are payload."""
    sends = [packets.send(psn, 1024) for psn in range(count)]
    time = (len(sends[0]) + 24) * 8 * 10**9 // link
    facts = timed(*((n * time, 0, frame) for n, frame in enumerate(sends)))
    assert requests(facts).goodput == pytest.approx(1024 * 8e9 / time)
    assert requests(facts).goodput < link


def test_one_packet_has_no_rate() -> None:
    assert requests(timed((0, 0, packets.send(1)))).goodput == 0


LINK = 10**8
JITTER = (0, 40_000, -40_000, 90_000, -90_000, 10_000)
"""ns by which timestamps are late or early."""


def full_link(count: int, speed: int, size: int = 4096) -> AnalysisFacts:
    """Packets back to back on a link of 100 Mb/s, which the file calls one of ``speed``."""
    sends = [packets.send(psn, size) for psn in range(count)]
    time = (len(sends[0]) + 24) * 8 * 10**9 // LINK
    taken = [
        Record(
            START + n * time + JITTER[n % len(JITTER)] * (0 < n < count - 1), 0, len(frame), Direction.INBOUND, frame
        )
        for n, frame in enumerate(sends)
    ]
    return analyse(io.BytesIO(pcapng(taken, Interface("h1:eth1", speed=speed))), "story")


@pytest.mark.parametrize("count", [2, 3, 5, 100, 1000, 4000])
def test_no_interval_has_more_goodput_than_its_link_carries(count: int) -> None:
    """A packet takes 334 us on the link, an interval lasts from 100 us: what counts in one was in several."""
    (flow,) = full_link(count, LINK).over_time.flows
    interval = full_link(count, LINK).over_time.interval
    assert max(flow.goodput) <= LINK
    assert flow.peak <= LINK
    moved = sum(flow.goodput) * interval / 8
    assert count * 4096 - 4096 <= moved <= count * 4096 + 1


def test_a_rate_that_the_flow_itself_exceeds_limits_nothing() -> None:
    (flow,) = full_link(1000, LINK // 10).over_time.flows
    assert max(flow.goodput) > LINK // 10
    assert flow.peak > 0.9 * LINK


def test_what_exceeds_an_interval_goes_to_the_earlier_ones_first() -> None:
    assert spread([0, 10, 0, 25, 0], 10) == [5, 10, 10, 10, 0]
    assert spread([35, 0, 0, 0, 5], 10) == [10, 10, 10, 5, 5]
    assert spread([0, 35, 0], 10) == [10, 10, 10]
    assert spread([3, 10, 7], 10) == [3, 10, 7]
    assert spread([], 10) == []


PAUSED = packets.pause({3: 0xFFFF})
RESUMED = packets.pause({3: 0})


def paused(begin: int, end: int, *story: tuple[int, bytes]) -> list[str]:
    """What looks wrong where a link of 100 Mb/s is paused from ``begin`` to ``end``, in ms."""
    events = [*((at, PAUSED) for at in range(begin, end, 300)), (end, RESUMED), *story]
    taken = [Record(START + at * MS, 0, len(frame), Direction.INBOUND, frame) for at, frame in
             sorted(events, key=lambda event: event[0])]  # fmt: skip
    facts = analyse(io.BytesIO(pcapng(taken, Interface("h1:eth1", speed=10**8))), "story")
    return [f"{finding.what}: {finding.meaning}" for finding in facts.findings]


def test_a_timer_that_expires_behind_a_pause_is_no_loss() -> None:
    story = [(0, packets.send(1)), (1, packets.send(2)), (4500, packets.send(1)), (4501, packets.send(2)),
             (4502, packets.ack(2))]  # fmt: skip
    told = paused(2, 4450, *story)
    assert any("1 timeout while the link was paused, 2 packets retransmitted" in what for what in told)
    assert not any("lost or reordered" in what for what in told)


def test_a_timer_that_expires_without_a_pause_is_a_loss() -> None:
    story = [(0, packets.send(1)), (1, packets.send(2)), (4500, packets.send(1)), (4502, packets.ack(2))]
    told = paused(5000, 5400, *story)
    assert any("lost or reordered" in what for what in told)
    assert not any("timeout while the link was paused" in what for what in told)


def test_a_nak_during_a_pause_is_a_loss() -> None:
    story = [(0, packets.send(1)), (1, packets.send(2)), (2, packets.send(3)), (400, packets.ack(2, NAK)),
             (450, packets.send(2)), (451, packets.send(3)), (452, packets.ack(3))]  # fmt: skip
    assert any("lost or reordered" in what for what in paused(3, 440, *story))
