"""Plain VLANs: what each switch has, and what it has not."""

from pathlib import Path

import pytest

from lab.model.addressing import plan_addresses
from lab.model.hosts import addresses_of, hosts_file
from lab.model.load import load_topology, read_topology
from lab.model.overlay.node_plan import BridgeMember
from lab.model.overlay.plan import OverlayPlan, plan_overlay
from lab.model.overlay.spanning_tree_plan import AGEING, FORWARD_DELAY, HELLO, MAX_AGE, Trunk, cost_of
from lab.model.store import dump, restore
from lab.model.topology import Topology
from lab.routing.frr_config.render import has_routers
from lab.routing.wait.evpn_expectations import expected_overlay

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


@pytest.fixture(scope="module")
def topology() -> Topology:
    return read_topology(TOPOLOGIES / "vlans.yaml")


@pytest.fixture(scope="module")
def overlay(topology: Topology) -> OverlayPlan:
    planned = plan_overlay(topology)
    assert planned is not None
    return planned


def test_every_switch_has_a_bridge_and_every_link_between_switches_is_a_trunk(overlay: OverlayPlan) -> None:
    assert list(overlay.bridges) == ["spine1", "spine2", "leaf1", "leaf2", "leaf3"]
    spine, leaf = overlay.bridges["spine1"], overlay.bridges["leaf3"]
    assert (spine.ports, spine.trunks) == ((), (Trunk("swp1", 19), Trunk("swp2", 19), Trunk("swp3", 19)))
    assert leaf.trunks == (Trunk("swp1", 19), Trunk("swp2", 19))
    assert leaf.ports == (BridgeMember("swp3", 10, ()), BridgeMember("swp4", 0, (20,)))
    assert {bridge.vlans for bridge in overlay.bridges.values()} == {(10, 20)}


def test_the_first_spine_is_to_be_the_root_and_the_second_its_successor(overlay: OverlayPlan) -> None:
    """IEEE 802.1D: priorities are multiples of 4096, and the lowest wins; below it, the MAC."""
    priorities = {name: bridge.priority for name, bridge in overlay.bridges.items()}
    assert priorities == {"spine1": 4096, "spine2": 8192, "leaf1": 32768, "leaf2": 32768, "leaf3": 32768}
    assert len({bridge.mac for bridge in overlay.bridges.values()}) == 5


@pytest.mark.parametrize(
    ("rate", "cost"),
    [(10**6, 250), (10**7, 100), (99 * 10**6, 62), (10**8, 19), (10**9, 4), (10**10, 2), (25 * 10**9, 1)],
)
def test_a_port_costs_what_the_standard_recommends(rate: int, cost: int) -> None:
    """IEEE 802.1D-1998 table 8-5."""
    assert cost_of(rate) == cost


def test_timers_are_the_shortest_that_the_standard_permits() -> None:
    """IEEE 802.1D-2004 section 17.14 and table 17-1; of ageing, section 7.9.2."""
    assert 2 * (FORWARD_DELAY - 1) >= MAX_AGE >= 2 * (HELLO + 1)
    assert (MAX_AGE, HELLO, AGEING) == (6, 1, 10)


def test_no_switch_has_an_address_a_tunnel_or_a_router(topology: Topology, overlay: OverlayPlan) -> None:
    plan = plan_addresses(topology)
    for switch in topology.switches:
        assert plan[switch.name].loopbacks == ()
        assert [each.address for each in plan[switch.name].interfaces.values()] == [None] * len(
            topology.links_of(switch.name)
        )
    assert (overlay.leaves, expected_overlay(topology, plan), has_routers(topology)) == ({}, {}, False)
    assert "leaf1" not in hosts_file(plan)


def test_hosts_get_their_addresses_as_with_evpn(topology: Topology, overlay: OverlayPlan) -> None:
    plan = plan_addresses(topology)
    known = {host.name: str(plan[host.name].interfaces["eth1"].address) for host in topology.hosts}
    assert known == {
        "h1": "10.1.10.1/24", "h3": "10.1.10.2/24", "h5": "10.1.10.3/24",
        "h2": "10.1.20.1/24", "h4": "10.1.20.2/24", "h6": "None",
    }  # fmt: skip
    assert [str(each.addresses[0].address) for each in overlay.hosts["h6"]] == ["10.1.20.3/24"]
    assert [str(address) for address in addresses_of(plan, "h6")] == ["10.1.20.3"]
    assert "10.1.20.3 h6 h6-eth1.20\n" in hosts_file(plan)


def test_it_is_kept_and_read_again(topology: Topology) -> None:
    assert restore(dump(topology)) == topology


def test_there_are_4094_vlans_and_no_more() -> None:
    """IEEE 802.1Q table 9-2: 12 bits, of which two values are nobody's."""
    head = "name: many\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
    text = head + "overlay: {design: vlans, networks: {lan: {vlan: %d, untagged: [h1, h2]}}}\n"
    load_topology(text % 4094)
    with pytest.raises(Exception, match="4095 is too big; choose 4094 or less"):
        load_topology(text % 4095)
