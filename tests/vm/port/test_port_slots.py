"""Places for packets: what one class fills up, another and the port's own frames still have."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from lab.dataplane import slot_budget
from lab.dataplane.port_layout import Drop
from lab.kernel.packets.inject import Injector
from lab.model.qos.port import GroupQos
from tests.vm.port.test_port_xoff import GROUP, PRIORITY, XOFF_AT, data, frame
from tests.vm.port_programs import DATA, NO_PORT, PORT, SLOTS, SWP1, SWP2, Switch, mark, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm]

SLOW = replace(PORT, rate=10_000)
"""70 ms for a packet: none leaves while the test fills the port up."""
BULK, OTHER = 0, 4
_SO_SNDBUFFORCE = 32
_ROOM = 1 << 28
"""Bytes of a socket's buffer for all that waits."""
SHARED = slot_budget.usable(SLOTS)
OWN = SLOTS // 32


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Iterator[Switch]:
    built.reset(SLOW)
    yield built
    built.flush()


@contextmanager
def sender(ports: Switch, priority: int, ingress: int = NO_PORT) -> Iterator[Injector]:
    """What sends smallest packets of a priority out of the port."""
    with Injector(ports.inside, "swp1") as injector:
        marked = mark(DATA, priority, ingress).to_bytes(4, sys.byteorder)
        injector._socket.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, marked)
        injector._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _ROOM)
        yield injector


def fill(ports: Switch, priority: int, packets: int = SLOTS) -> int:
    """How many of ``packets`` the port keeps of a priority; the others have no slot."""
    queue = counted(ports, priority)
    before, refused = int(queue["offered_packets"]), int(queue["drop_packets"][Drop.SLOTS])
    with sender(ports, priority) as injector:
        injector.send([data(priority)] * packets)
    assert int(queue["offered_packets"]) - before == packets
    return packets - int(queue["drop_packets"][Drop.SLOTS]) + refused


def counted(ports: Switch, priority: int) -> Any:
    return ports.maps.counters[SWP1]["queue"][PORT.priority_to_queue[priority]]


def about(packets: int) -> Any:
    """Some leave meanwhile."""
    return pytest.approx(packets, abs=20)


def test_small_packets_of_best_effort_leave_half_to_the_lossless_classes(ports: Switch) -> None:
    assert fill(ports, BULK) == about(SHARED // 2)
    assert fill(ports, PRIORITY) == about(SHARED - SHARED // 2)


def test_a_lossless_queue_alone_has_all_that_is_shared(ports: Switch) -> None:
    assert fill(ports, PRIORITY) == about(SHARED)


@pytest.mark.parametrize("priority", [OTHER, BULK])
def test_a_queue_has_places_of_its_own_when_another_has_taken_all(ports: Switch, priority: int) -> None:
    fill(ports, PRIORITY)
    assert fill(ports, priority) == about(OWN)


def test_a_port_that_is_full_still_sends_its_own_frames(ports: Switch) -> None:
    for priority in (PRIORITY, OTHER, *range(8)):
        fill(ports, priority)
    drops = [int(queue["drop_packets"][Drop.SLOTS]) for queue in ports.maps.counters[SWP1]["queue"]]
    ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
    with ports.wire() as wire:
        ports.rx(data(PRIORITY))
        assert frame(PRIORITY) in [wire.next() for _ in range(3)]
    assert ports.maps.counters[SWP1]["tx_pfc_failed"] == 0
    assert drops == [int(queue["drop_packets"][Drop.SLOTS]) for queue in ports.maps.counters[SWP1]["queue"]]


@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(8)])
def test_a_pool_holds_at_most_a_frame_too_much_for_each_cpu(ports: Switch, alpha: Fraction) -> None:
    """Check and charge are in the group's lock, and the pool is every group's (buffer.h); here is one CPU."""
    pool, size = 50_000, 1000
    group = GroupQos(reserved=0, alpha=alpha, xoff=None, xon=0, headroom=0)
    ports.reset(replace(SLOW, groups=(group,) * 8))
    ports.maps.nodes["pool_bytes"] = pool
    for priority in (0, 1, 2, 5):
        with sender(ports, priority, SWP2) as injector:
            injector.send([data(priority).ljust(size, b"\0")] * 100)
    most = int(ports.maps.nodes["pool_watermark"][0])
    assert 0.7 * pool < most < pool + size * len(os.sched_getaffinity(0))
