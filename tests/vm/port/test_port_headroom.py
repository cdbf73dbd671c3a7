"""Headroom is left to packets that come after XOFF; one that was below the threshold on arrival takes none of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.vm.port.test_port_slots import SLOW, sender
from tests.vm.port.test_port_xoff import GROUP, PRIORITY, XOFF_AT, data, frame
from tests.vm.port_programs import SWP2, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm]

BYTES = len(data(PRIORITY))


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Iterator[Switch]:
    """The group of swp2 is at its threshold, and has not paused its peer."""
    built.reset(SLOW)
    built.set_group(SWP2, GROUP, bytes=XOFF_AT)
    yield built
    built.flush()


def charged(ports: Switch, packets: int) -> Any:
    """The group after these have entered the queue of swp1; another is on the line."""
    with sender(ports, PRIORITY, SWP2) as injector:
        injector.send([data(PRIORITY)] * packets)
    return ports.group(SWP2, GROUP)


def test_what_has_passed_the_test_for_xoff_is_below_the_threshold(ports: Switch) -> None:
    """As many packets as a stack hands on at once: others have moved the threshold since they were tested."""
    group = charged(ports, 4)
    assert (int(group["bytes"]), int(group["headroom"]), int(group["paused"])) == (XOFF_AT + 3 * BYTES, 0, 0)


def test_what_comes_after_xoff_is_in_headroom(ports: Switch) -> None:
    with ports.wire(SWP2) as wire:
        ports.rx(data(PRIORITY), SWP2)
        assert wire.next() == frame(PRIORITY)
        group = charged(ports, 4)
    assert (int(group["bytes"]), int(group["headroom"]), int(group["paused"])) == (XOFF_AT + 3 * BYTES, 3 * BYTES, 1)


def test_where_no_pfc_is_sent_headroom_is_taken_beyond_the_threshold(ports: Switch) -> None:
    ports.reset(replace(SLOW, pfc=replace(SLOW.pfc, tx=False)))
    ports.set_group(SWP2, GROUP, bytes=XOFF_AT)
    group = charged(ports, 4)
    assert (int(group["bytes"]), int(group["headroom"])) == (XOFF_AT + 3 * BYTES, 3 * BYTES)
