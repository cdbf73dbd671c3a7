"""Reachability of hosts, and the effect of a cut link: one fabric for all tests of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.testing.fabric_fixture import FabricFixture, Faults

pytestmark = pytest.mark.rocelab(topology="two-hosts.yaml", scope="module")


def test_hosts_reach_each_other(fabric: FabricFixture) -> None:
    """Pings go and come back."""
    assert fabric.ping("h1", "h2", times=5) == 5


def test_a_cut_link_is_silent(fabric: FabricFixture, fault: Faults) -> None:
    """Packets from h1 do not arrive, and ``fault`` heals the link when the test ends."""
    fault("link-cut", "h1--leaf1")
    assert fabric.ping("h1", "h2") == 0


def test_packets_are_seen_on_the_wire(fabric: FabricFixture) -> None:
    """Three requests and three answers pass h2's link; filters are those of ``rocelab capture``."""
    with fabric.capturing("h2--leaf1") as packets, fabric.counting() as counted:
        assert fabric.ping("h1", "h2", times=3) == 3
    assert packets.count("host h1 and host h2") == 6
    assert counted.count("rx_packets", "leaf1:swp1") >= 3
