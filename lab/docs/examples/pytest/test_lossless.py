"""An incast without loss, and what breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.testing.fabric_fixture import FabricFixture, Faults, Recordings

pytestmark = pytest.mark.rocelab(topology="lossless.yaml", scope="module")
LINK = 100_000_000


def test_nothing_is_lost(fabric: FabricFixture) -> None:
    """Two hosts write to a third: the leaf pauses them, and h3's link is full."""
    with fabric.counting() as counted:
        goodput = fabric.goodput("h1:h3", "h2:h3")
    assert counted.count("drops") == 0
    assert counted.count("pauses", "leaf1") > 0
    assert sum(goodput.values()) > 0.9 * LINK


def test_a_storm_stops_its_leaf(fabric: FabricFixture, fault: Faults, recording: Recordings) -> None:
    """h3's NIC sends nothing but pauses: while it does, h3 receives next to nothing."""
    with recording() as run, fabric.writing("h1:h3"):
        with run.phase("before"):
            fabric.hold(1)
        with fault("pause-storm", "h3"), run.phase("storm"):
            fabric.hold(1)
    sent = run.read().port("leaf1:swp3").tx_bytes(3)
    assert sent.during("storm").rate() < 0.1 * sent.during("before").rate()
