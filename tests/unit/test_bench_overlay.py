"""The fabrics that the overlay benchmark builds, by arithmetic."""

from __future__ import annotations

import pytest

from lab.model.overlay.plan import plan_overlay
from tests.bench.overlay import HOSTS, SIZES, topology_of


@pytest.mark.parametrize("size", SIZES)
def test_sixty_four_hosts_are_four_in_each_of_sixteen_networks(size: str) -> None:
    topology = topology_of(size)
    overlay = plan_overlay(topology)
    assert overlay is not None
    assert len(topology.hosts) == len(overlay.hosts) == HOSTS == 64
    assert [len(network.attachments) for network in overlay.networks] == [4] * 16
    assert {vrf.name for leaf in overlay.leaves.values() for vrf in leaf.vrfs} == {f"tenant{n}" for n in (1, 2, 3, 4)}
    assert len(overlay.leaves) == int(size.partition("x")[2])


def test_bridged_networks_need_no_vrf() -> None:
    overlay = plan_overlay(topology_of("8x8", bridged=True))
    assert overlay is not None
    assert [vrf for leaf in overlay.leaves.values() for vrf in leaf.vrfs] == []
    assert all(not network.gateways for network in overlay.networks)
