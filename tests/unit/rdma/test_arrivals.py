"""What was completed against what arrived: nothing is faster than its packets, and the rest of these is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.rdma.measure import BandwidthResult, Pair, Verb, total
from lab.rdma.receive_cap import arrivals, no_faster
from tests.unit.rdma.test_measure import PAIR


class Received:
    """A meter that saw each device receive so many packets a second."""

    def __init__(self, **per_second: float) -> None:
        self.rate = lambda device, counter: per_second.get(device) if counter == "rcvd_pkts" else None


LINK = 100e6 / 8 / 4178
"""Packets per second of a link of 100 Mb/s: 4,154 octets, FCS, preamble and gap."""
FASTEST = LINK * 4096 * 8
"""Their payload, in bit/s."""


def result(messages: int, src: str = "h1") -> BandwidthResult:
    goodput = round(messages * 65536 * 8 / 5)
    return BandwidthResult(src, "h2", "write", goodput, messages, 5.0, 0.0, 65536, 8, 4096, 106)


def test_nothing_is_faster_than_its_packets_came() -> None:
    """8 QPs of 128 messages: 938 fit into 5 s of the link, and 1,024 more were completed before and polled late."""
    pairs = [PAIR, PAIR]
    meter: Any = Received(**{PAIR.dst.device: LINK})
    spoilt = [result(938 // 2 + 1024), result(938 // 2, "h3")]
    assert total(spoilt).goodput_bps > 2 * FASTEST
    for sums in (spoilt, [result(938), result(1)]):
        bounded = no_faster(sums, pairs, Verb.WRITE, meter)
        assert total(bounded).goodput_bps == pytest.approx(FASTEST, rel=0.001)
        assert sum(each.goodput_bps for each in bounded) == pytest.approx(FASTEST, rel=0.001)
        assert [each.messages for each in bounded] == [each.messages for each in sums]


def test_what_its_packets_allow_is_left_alone() -> None:
    """ACKs of what the receiver sends itself are among its packets, and so are those that came twice."""
    meter: Any = Received(**{PAIR.dst.device: LINK * 1.1})
    unknown: Any = Received()
    for each in (meter, unknown):
        assert no_faster([result(930)], [PAIR], Verb.WRITE, each) == (result(930),)


def test_a_read_is_received_by_its_source() -> None:
    meter: Any = Received(**{PAIR.dst.device: 1.0, PAIR.src.device: LINK / 2})
    (bounded,) = no_faster([result(930)], [PAIR], Verb.READ, meter)
    assert bounded.goodput_bps == pytest.approx(FASTEST / 2, rel=0.001)


def told(*received: int) -> Any:
    """A meter of h1 and h2, which received so many packets."""
    counted = dict(zip((PAIR.src.device, PAIR.dst.device), received, strict=True))
    return SimpleNamespace(grown=lambda device, counter: counted[device] if counter == "rcvd_pkts" else None)


def test_packets_that_arrived_are_those_of_the_messages_and_others() -> None:
    """As it was on a busy machine in host time, with 8 QPs: 12 NAKs, and what was sent behind each again."""
    (arrived,) = arrivals([result(491)], [PAIR], Verb.WRITE, told(497, 8567))
    assert arrived.of_messages == 491 * 16
    assert str(arrived) == (
        "h2: 8567 packets received = 7856 of its 491 messages + 711 besides"
        " (sent again, out of order, ACKs, of messages at either end)"
    )


def test_messages_whose_packets_came_before_the_window_are_told() -> None:
    (arrived,) = arrivals([result(131), result(151, "h3")], [PAIR, PAIR], Verb.WRITE, told(27, 3936))
    assert str(arrived) == "h2: 3936 packets received = 4512 of its 282 messages - 576 that had come before"


def test_each_receiver_is_told_once_and_that_of_a_read_is_its_source() -> None:
    back = Pair(PAIR.dst, PAIR.src)
    both = arrivals([result(1), result(2)], [PAIR, back], Verb.READ, told(16, 32))
    assert [(each.host, each.of_messages) for each in both] == [("h1", 16), ("h2", 32)]


def test_the_last_packet_of_a_message_may_be_a_small_one() -> None:
    small = BandwidthResult("h1", "h2", "write", 1, 10, 5.0, 0.0, 4097, 1, 4096, 106)
    assert small.packets == 20
