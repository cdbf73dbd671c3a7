"""The event log: order, names, the ring's seam, and records that are just being written."""

import dataclasses
from typing import Any, cast

import numpy as np
import pytest

from lab.dataplane import events
from lab.dataplane.numbering import NodePorts, Numbering
from lab.dataplane.port_layout import EVENT, EVENTS, Drop, EventKind
from lab.dataplane.port_maps import PortMaps
from tests.unit.dataplane.made_maps import empty, log_event

LEAF = NodePorts("leaf1", 0, 1, ("swp1", "swp2"), host=False)
NUMBERING = Numbering({"leaf1": LEAF})
SWP1, SWP2 = LEAF.port("swp1"), LEAF.port("swp2")


def log(maps: PortMaps, *records: tuple[int, int, int, int, int]) -> None:
    """Each record is ns, value, port, kind, index."""
    for record in records:
        log_event(maps, *record)


def read(maps: PortMaps) -> list[events.PortEvent]:
    return events.read_events(maps, NUMBERING.names)


def test_events_are_told_in_order_with_their_place_and_time() -> None:
    maps = empty(NUMBERING)
    log(
        maps,
        (2_500_000_000, 65535, SWP2, EventKind.PAUSED, 3),
        (2_000_000_000, 80_000, SWP1, EventKind.XOFF_SENT, 4),
    )
    assert read(maps) == [
        events.PortEvent(2.0, 0.0, "leaf1", "swp1", EventKind.XOFF_SENT, 4, 80_000),
        events.PortEvent(2.5, 0.5, "leaf1", "swp2", EventKind.PAUSED, 3, 65535),
    ]
    assert [events.describe_value(event) for event in read(maps)] == ["80 KB", "65535 quanta"]


def test_no_events() -> None:
    assert read(empty(NUMBERING)) == []


def test_the_oldest_are_written_over() -> None:
    maps = full()
    log(maps, (10**9, 0, SWP2, EventKind.XON_SENT, 3), (10**9 + 1, 0, SWP2, EventKind.XON_SENT, 3))
    found = read(maps)
    assert len(found) == EVENTS
    assert found[0].boot_seconds == 1002e-9
    assert [event.interface for event in found[-2:]] == ["swp2", "swp2"]


def test_a_record_that_is_not_filled_in_yet_is_left_out() -> None:
    maps = empty(NUMBERING)
    log(maps, (1000, 0, SWP1, EventKind.XON_SENT, 3))
    maps.event_count[0] += 1
    assert [event.boot_seconds for event in read(maps)] == [1e-6]


def test_a_record_of_the_last_round_is_left_out() -> None:
    maps = full()
    maps.event_count[0] = EVENTS + 2  # two more are counted, and their slots have the two oldest still
    assert len(read(maps)) == EVENTS - 2


class TestTail:
    """Each event comes back once, whatever the ring and the writers do meanwhile."""

    def test_an_event_that_is_counted_but_not_stored_comes_later_and_no_stale_one_in_its_place(self) -> None:
        maps = full()
        tail = events.Tail(maps, NUMBERING.names)
        assert len(tail.new()) == EVENTS
        maps.event_count[0] += 1
        assert tail.new() == []
        maps.events[0] = (10**9, 0, SWP2, EventKind.XON_SENT, 3, EVENTS + 1)
        assert [(event.interface, event.boot_seconds) for event in tail.new()] == [("swp2", 1.0)]
        assert tail.new() == []

    def test_events_behind_one_that_is_not_stored_wait_for_it(self) -> None:
        maps = full()
        tail = events.Tail(maps, NUMBERING.names)
        tail.new()
        maps.event_count[0] += 1  # one CPU has counted its event ...
        log(maps, (10**9 + 1, 0, SWP2, EventKind.XON_SENT, 4))  # ... and another stores the next one first
        assert tail.new() == []
        maps.events[0] = (10**9, 0, SWP1, EventKind.XON_SENT, 3, EVENTS + 1)
        assert [event.number for event in tail.new()] == [3, 4]

    def test_a_record_that_is_half_written_is_left_for_the_next_time(self) -> None:
        """All but the sequence number is new: what was read could still change."""
        maps = full()
        tail = events.Tail(maps, NUMBERING.names)
        tail.new()
        maps.event_count[0] += 1
        maps.events[0] = (10**9, 0, SWP2, EventKind.XON_SENT, 3, 1)
        assert tail.new() == []

    @pytest.mark.parametrize("behind", [10, EVENTS // 2 + 10, EVENTS - 10, EVENTS + 10])
    @pytest.mark.parametrize("meanwhile", [0, 10])
    def test_none_is_told_twice_however_far_the_reader_is_behind(self, behind: int, meanwhile: int) -> None:
        """``meanwhile`` events are logged between two looks at the count."""
        maps = full()
        tail = events.Tail(
            dataclasses.replace(maps, event_count=cast("Any", Growing(maps, meanwhile))), NUMBERING.names
        )
        tail._next = EVENTS
        log(maps, *((10**9 + number, number, SWP2, EventKind.PAUSED, 3) for number in range(behind)))
        told = [event.value for _ in range(3) for event in tail.new()]
        told += [event.value for event in tail.new()]
        assert told == sorted(set(told))
        assert told[-1] == behind + meanwhile - 1
        assert len(told) >= min(behind + meanwhile, EVENTS - meanwhile)


class Growing:
    """Stands in for the count: after the first look at it some more events are logged."""

    def __init__(self, maps: PortMaps, more: int) -> None:
        self._maps, self._more = maps, more

    def __getitem__(self, index: int) -> int:
        count = int(self._maps.event_count[index])
        for number in range(self._more):
            log(self._maps, (2 * 10**9 + number, count - EVENTS + number, SWP2, EventKind.PAUSED, 3))
        self._more = 0
        return count


def full() -> PortMaps:
    """A ring in which every slot was written once."""
    maps = empty(NUMBERING)
    maps.events["ns"] = np.arange(EVENTS) + 1000
    maps.events["port"] = SWP1
    maps.events["sequence"] = np.arange(EVENTS) + 1
    maps.event_count[0] = EVENTS
    return maps


def test_of_ports_keeps_the_named() -> None:
    records = np.array([(1, 0, SWP1, 1, 3, 1), (2, 0, SWP2, 1, 3, 2), (3, 0, 99, 1, 3, 3)], EVENT)
    found = events.decode(records, NUMBERING.names)
    assert [event.interface for event in found] == ["swp1", "swp2"], "port 99 is nobody's"
    assert [event.interface for event in events.of_ports(found, [("leaf1", "swp2")])] == ["swp2"]


def test_a_pause_that_ran_out_has_an_end_before_the_kernel_tells_of_it() -> None:
    """Paused at 1 s for 0.3355 s, 65535 quanta of 100 Mb/s (IEEE 802.3 31B.2), and then nothing was heard."""
    maps = empty(NUMBERING)
    log(maps, (10**9, 65535, SWP1, EventKind.PAUSED, 3))
    priority = maps.counters["priority"]
    priority["paused_from"][SWP1, 3], priority["paused_until"][SWP1, 3] = 10**9, 1_335_539_200
    assert not len(events.expired(priority, 1_335_539_199)), "it lasts"
    (record,) = events.expired(priority, 1_335_539_200)
    assert (record["ns"], record["port"], record["index"]) == (1_335_539_200, SWP1, 3)
    told = read(maps)
    assert [event.kind for event in told] == [EventKind.PAUSED, EventKind.EXPIRED]
    assert told[1].seconds == 0.3355392
    priority["paused_from"][SWP1, 3] = priority["paused_until"][SWP1, 3]  # as an XON leaves it
    assert [event.kind for event in read(maps)] == [EventKind.PAUSED]


def test_drops_are_told_where_they_came_in_and_where_they_were_to_leave() -> None:
    maps = empty(NUMBERING)
    log(
        maps,
        (10**9, SWP2, SWP1, EventKind.GROUP_DROPS, 3),
        (10**9, Drop.HEADROOM, SWP2, EventKind.QUEUE_DROPS, 3),
    )
    came_in, to_leave = read(maps)
    assert (came_in.interface, came_in.towards) == ("swp1", "leaf1:swp2")
    assert events.describe_value(came_in) == "no room; to leave by leaf1:swp2"
    assert (to_leave.interface, events.describe_value(to_leave)) == ("swp2", "headroom full")
