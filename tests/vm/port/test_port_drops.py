"""Drops, seen from both sides: the group that a packet came in by, and the queue that it was to leave by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.dataplane import events
from lab.dataplane.port_layout import Drop, EventKind
from tests.vm.one_switch import SWITCH, Star, blasting, build, listening, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

LOSSLESS = 26 << 2 | 2
PRIORITY = 3
DROPS = 100
SIZE = 4000


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(3, "20Mbit", 4500)) as built:
        built.configure(SWITCH, "pfc.tx=false", "buffer.groups.3.xoff=20KB", "buffer.groups.3.headroom=10KB")
        yield built


def dropped(fabric: Star) -> tuple[int, int]:
    """Packets that the two groups had no room for, and that the queue to h3 did not get."""
    groups = sum(int(fabric.counters(SWITCH, name)["group"][PRIORITY]["drop_packets"]) for name in ("swp1", "swp2"))
    return groups, int(fabric.counters(SWITCH, "swp3")["queue"][PRIORITY]["drop_packets"][Drop.HEADROOM])


def test_an_overflow_shows_where_it_came_in_and_where_it_was_to_go(fabric: Star) -> None:
    """Two hosts offer 40 Mb/s to a link of 20, and nobody pauses them: 20 KB and 10 KB of headroom overflow."""
    with (
        listening(fabric, "h3"),
        blasting(fabric, "h1", "h3", LOSSLESS, SIZE),
        blasting(fabric, "h2", "h3", LOSSLESS, SIZE),
    ):
        waited(lambda: dropped(fabric)[1] >= DROPS, "drops")
    waited(lambda: not fabric.live(SWITCH, "swp3")["queue"]["depth_packets"].any(), "the queue to empty")
    groups, queue = dropped(fabric)
    assert groups == queue
    told = events.read_events(fabric.maps, fabric.numbering.names)
    came_in = [event for event in told if event.kind is EventKind.GROUP_DROPS]
    to_leave = [event for event in told if event.kind is EventKind.QUEUE_DROPS]
    assert {event.interface for event in came_in} <= {"swp1", "swp2"}
    assert {(event.number, event.towards) for event in came_in} == {(PRIORITY, f"{SWITCH}:swp3")}
    assert {(event.interface, event.number, event.value) for event in to_leave} == {("swp3", PRIORITY, Drop.HEADROOM)}
    assert 0 < len(to_leave) < queue / 2  # a burst is one event
