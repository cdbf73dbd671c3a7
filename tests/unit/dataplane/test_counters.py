"""Readings of maps that we fill ourselves: what they add up to, and what they cost."""

import sys
import time
from typing import Any

import numpy as np
import pytest

from lab.dataplane import counter_baseline, counters, port_layout
from lab.dataplane.counter_names import COUNTERS, CounterScope, PortCounter
from lab.dataplane.counters import CounterReading, Imbalance
from lab.dataplane.numbering import NodePorts, Numbering
from lab.dataplane.port_layout import Drop
from lab.dataplane.port_maps import PortMaps
from tests.unit.dataplane.made_maps import empty

LEAF = NodePorts("leaf1", 0, 1, ("swp1", "swp2"), host=False)
HOST = NodePorts("h1", 1, 4, ("eth1",), host=True)
NUMBERING = Numbering({"leaf1": LEAF, "h1": HOST})
SWP2 = LEAF.port("swp2")


@pytest.fixture
def maps() -> PortMaps:
    return empty(NUMBERING)


def count_packet(maps: PortMaps, port: int, queue: int, size: int, **what: int) -> None:
    """Let a queue have counted a packet of ``size`` bytes; ``what`` is where it ended: sent, depth or drop=reason."""
    of_queue = maps.counters["queue"]
    of_queue["offered_packets"][port, queue] += 1
    of_queue["offered_bytes"][port, queue] += size
    for end, reason in what.items():
        packets, octets = of_queue[f"{end}_packets"], of_queue[f"{end}_bytes"]
        where: Any = (port, queue, reason) if end == "drop" else (port, queue)
        packets[where] += 1
        octets[where] += size


def twice(maps: PortMaps) -> tuple[CounterReading, CounterReading]:
    return counters.read(maps, LEAF), counters.read(maps, LEAF)


def test_a_reading_is_a_copy_of_the_nodes_interfaces_alone(maps: PortMaps) -> None:
    maps.counters["rx_pfc"] = np.arange(NUMBERING.size)
    maps.nodes["pool_used"][0], maps.nodes["pool_watermark"][0] = 500, 900
    reading = counters.read(maps, LEAF)
    maps.counters["rx_pfc"] = 77
    assert reading.ports["rx_pfc"].tolist() == [LEAF.port("swp1"), LEAF.port("swp2")]
    assert reading.port("swp2")["rx_pfc"] == LEAF.port("swp2")
    assert (reading.pool_used, reading.pool_watermark) == (500, 900)
    maps.counters["rx_pfc"][HOST.drain("eth1")] = 9
    assert counters.read(maps, HOST).ports.shape == (2,)
    assert counters.read(maps, HOST).port("rx-eth1")["rx_pfc"] == 9


def test_the_pause_under_way_counts_up_to_the_reading(maps: PortMaps) -> None:
    """802.1Qbb: paused_ns so far 1 s, paused again half a second ago until far in the future."""
    now = time.monotonic_ns()
    pauses = maps.counters["priority"][SWP2]
    pauses["paused_ns"][3], pauses["paused_from"][3] = 10**9, now - 5 * 10**8
    pauses["paused_until"][3] = now + 10**12
    reading = counters.read(maps, LEAF)
    assert reading.port("swp2")["priority"]["paused_ns"][3] == 10**9 + reading.ns - (now - 5 * 10**8)
    assert pauses["paused_ns"][3] == 10**9, "the kernel's own counter stays"


def test_a_pause_that_has_run_out_counts_to_its_end_alone(maps: PortMaps) -> None:
    now = time.monotonic_ns()
    pauses = maps.counters["priority"][SWP2]
    pauses["paused_from"][3], pauses["paused_until"][3] = now - 10**9, now - 10**9 + 1000
    assert counters.read(maps, LEAF).port("swp2")["priority"]["paused_ns"][3] == 1000


def test_what_moved_is_the_difference_and_never_negative(maps: PortMaps) -> None:
    maps.counters["priority"]["rx_bytes"][SWP2, 3] = 1000
    maps.counters["priority"]["paused_ns"][SWP2, 3] = 50
    before = counters.read(maps, LEAF)
    maps.counters["priority"]["rx_bytes"][SWP2, 3] = 4000
    maps.counters["priority"]["paused_ns"][SWP2, 3] = 40
    movement = counters.moved(counters.read(maps, LEAF), before)
    assert movement.port("swp2")["priority"]["rx_bytes"].tolist() == [0, 0, 0, 3000, 0, 0, 0, 0]
    assert movement.port("swp2")["priority"]["paused_ns"][3] == 0
    assert movement.seconds > 0


def test_load_counts_what_a_link_is_busy_with() -> None:
    """8127 frames of 1518 bytes with FCS are what 100 Mb/s carry in a second: 1538 byte times each (IEEE 802.3)."""
    assert counters.line_rate(8127, 8127 * 1514, 1.0) == pytest.approx(100e6, rel=1e-4)


def test_load_of_a_port_has_all_priorities_and_pfc(maps: PortMaps) -> None:
    before = counters.read(maps, LEAF)
    port = maps.counters[SWP2 : SWP2 + 1]
    port["priority"]["rx_packets"][0, 0], port["priority"]["rx_bytes"][0, 0] = 1, 1226
    port["priority"]["rx_packets"][0, 3], port["priority"]["rx_bytes"][0, 3] = 1, 1226
    port["tx_pfc"], port["tx_pfc_bytes"] = 1, 60
    movement = counters.moved(counters.read(maps, LEAF), before)
    received, sent = counters.offered_load(movement, "swp2")
    assert received * movement.seconds == pytest.approx(2500 * 8)
    assert sent * movement.seconds == pytest.approx(84 * 8)


@pytest.mark.parametrize("reason", list(Drop))
def test_sums_come_out_when_every_packet_is_accounted_for(maps: PortMaps, reason: Drop) -> None:
    count_packet(maps, SWP2, 3, 1000, sent=1)
    count_packet(maps, SWP2, 3, 2000, drop=reason)
    count_packet(maps, SWP2, 3, 500, depth=1)
    assert counters.unbalanced(*twice(maps)) == []


def test_a_packet_that_is_nowhere_names_its_queue(maps: PortMaps) -> None:
    count_packet(maps, SWP2, 3, 1000, sent=1)
    count_packet(maps, SWP2, 3, 1500)
    assert counters.unbalanced(*twice(maps)) == [Imbalance("swp2", 3, 1, 1500)]


def test_a_packet_that_was_counted_twice_names_its_queue(maps: PortMaps) -> None:
    count_packet(maps, SWP2, 5, 700, sent=1, depth=1)
    assert counters.unbalanced(*twice(maps)) == [Imbalance("swp2", 5, -1, -700)]


def test_a_busy_queue_is_not_judged(maps: PortMaps) -> None:
    before = counters.read(maps, LEAF)
    count_packet(maps, SWP2, 3, 1500)
    assert counters.unbalanced(before, counters.read(maps, LEAF)) == []


def test_names_are_those_that_operators_know(maps: PortMaps) -> None:
    port = maps.counters[SWP2 : SWP2 + 1]
    port["priority"]["rx_pause"][0, 3] = 7
    port["priority"]["paused_ns"][0, 3] = 2_500_000
    port["queue"]["drop_packets"][0, 3, Drop.HEADROOM] = 4
    port["group"]["watermark_bytes"][0, 3] = 90_000
    port["rx_pfc_invalid"] = 2
    known = counters.named(counters.read(maps, LEAF))
    assert known["swp1"] == {}
    assert known["swp2"] == {
        "rx_prio3_pause": 7,
        "rx_prio3_pause_duration": 2500,
        "queue3_drop_headroom_packets": 4,
        "pg3_watermark_bytes": 90_000,
        "rx_pfc_invalid": 2,
    }


def test_every_counter_of_the_record_has_a_name(maps: PortMaps) -> None:
    """Only what is an aid to others has none: when a pause began and ends, and what is not the clock's token."""
    known = counters.named(counters.read(maps, LEAF), zeros=True)["swp1"]
    eights = sum(counter.scope is not CounterScope.PORT for counter in COUNTERS)
    assert len(known) == len(COUNTERS) + 7 * eights
    words = port_layout.COUNTERS.itemsize // 8
    assert len(known) == words - 2 * port_layout.CLASSES - 1


def test_reading_forty_switches_makes_no_system_call_for_each() -> None:
    """Whatever opens, maps, connects or calls the C library is audited by Python; a reading does none of it."""
    ports = tuple(f"swp{number + 1}" for number in range(8))
    nodes = {f"s{n}": NodePorts(f"s{n}", n, 1 + 9 * n, ports, host=False) for n in range(40)}
    maps = empty(Numbering(nodes))
    seen: list[str] = []
    listening = False

    def hook(event: str, _: object) -> None:
        if listening:
            seen.append(event)

    sys.addaudithook(hook)
    listening = True
    readings = [counters.read(maps, node) for node in nodes.values()]
    quiet = list(seen)
    with open("/dev/null", "rb"):  # noqa: PTH123 - the ear hears
        listening = False
    assert len(readings) == 40
    assert not quiet
    assert "open" in seen


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: str(counter.name))
def test_since_a_mark_a_counter_is_what_it_grew_and_a_gauge_what_it_is(maps: PortMaps, counter: PortCounter) -> None:
    column = counter.record(maps.counters)[counter.field]
    field = column if counter.reason is None else column[..., counter.reason]
    field[SWP2] = 7 * counter.unit
    mark = counter_baseline.none(len(maps.counters))
    counter_baseline.clear(maps, mark, [(counters.read(maps, LEAF), LEAF.devices)])
    field[SWP2] = 9 * counter.unit
    since = counter_baseline.since(counters.read(maps, LEAF), mark)
    assert np.all(counter.of(since.ports)[1] == (9 if counter.gauge else 2))
