"""Expected routes against paths counted by hand."""

from pathlib import Path

from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.routing.expect import expected_routes
from lab.routing.expect_evpn import TenantRoutes, expected_overlay
from lab.routing.gap import Gap, compare

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def test_in_two_tiers_every_uplink_leads_to_every_leaf() -> None:
    topology = read_topology(TOPOLOGIES / "clos-2x4.yaml")
    expected = expected_routes(topology, plan_addresses(topology))
    assert set(expected) == {"leaf1", "leaf2", "leaf3", "leaf4"}
    # Three other leaves, each with loopback, VTEP, IPv6 loopback and two host links.
    assert len(expected["leaf1"]) == 3 * 5
    assert set(expected["leaf1"].values()) == {frozenset({"swp1", "swp2"})}


def test_longer_paths_are_not_expected() -> None:
    """leaf1 and leaf2 share spine1; only spine2 also reaches leaf3, through which leaf1 is never a transit."""
    topology = load_topology(
        """
name: lopsided
nodes:
  spine1: {role: spine}
  spine2: {role: spine}
  leaf1: {role: leaf}
  leaf2: {role: leaf}
links:
  - {ends: [leaf1, spine1]}
  - {ends: [leaf2, spine1]}
  - {ends: [leaf2, spine2]}
"""
    )
    expected = expected_routes(topology, plan_addresses(topology))
    assert set(expected["leaf2"].values()) == {frozenset({"swp1"})}


def test_a_gap_names_what_is_missing_and_what_is_too_much() -> None:
    wanted = {"10.0.0.0/31": frozenset({"swp1", "swp2"}), "10.0.0.2/31": frozenset({"swp1"})}
    actual = {"10.0.0.0/31": frozenset({"swp2"}), "10.0.0.2/31": frozenset({"swp1", "swp9"})}
    assert compare("leaf1", wanted, actual) == [
        Gap("leaf1", "10.0.0.0/31", ("swp1",), ()),
        Gap("leaf1", "10.0.0.2/31", (), ("swp9",)),
    ]
    assert str(compare("leaf1", wanted, {})[0]) == "leaf1: 10.0.0.0/31 has no next hop on swp1, swp2"


def test_no_gap_where_the_table_is_as_wanted() -> None:
    wanted = {"10.0.0.0/31": frozenset({"swp1"})}
    assert compare("leaf1", wanted, wanted | {"192.0.2.0/24": frozenset({"swp3"})}) == []


def test_who_leaks_has_the_others_subnets_too_and_nobody_third_ones() -> None:
    """At leaf1 blue and red; at leaf2 green, who is red's other partner."""
    topology = load_topology(
        """
name: leaks
generate: {shape: leaf-spine, spines: 1, leaves: 2, fabric_mtu: 9050}
overlay:
  leaks: [[blue, red], [red, green]]
  tenants:
    blue: {l3vni: 50010}
    red: {l3vni: 50020}
    green: {l3vni: 50030}
  networks:
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.0.0/24], gateways: [10.1.0.1], untagged: [h1]}
    lan: {vlan: 20, l2vni: 10020, tenant: red, subnets: [10.2.0.0/24], gateways: [10.2.0.1], tagged: [h1]}
    app: {vlan: 30, l2vni: 10030, tenant: green, subnets: [10.3.0.0/24], gateways: [10.3.0.1], untagged: [h3]}
"""
    )
    expected = expected_overlay(topology, plan_addresses(topology))
    (_, routes1), (_, routes2) = expected["leaf1"], expected["leaf2"]
    assert isinstance(routes1, TenantRoutes)
    assert isinstance(routes2, TenantRoutes)
    assert routes1.vteps == {
        ("blue", "10.2.0.0/24"): frozenset({"red"}),
        ("red", "10.1.0.0/24"): frozenset({"blue"}),
        ("red", "10.3.0.0/24"): frozenset({"10.252.0.2"}),
        ("green", "10.2.0.0/24"): frozenset({"red"}),
        ("green", "10.3.0.0/24"): frozenset({"10.252.0.2"}),
    }
    assert routes2.vteps == {
        ("green", "10.2.0.0/24"): frozenset({"10.252.0.1"}),
        ("red", "10.2.0.0/24"): frozenset({"10.252.0.1"}),
        ("red", "10.3.0.0/24"): frozenset({"green"}),
    }


def test_what_is_outside_is_by_the_border_leaf_and_there_by_the_router() -> None:
    """h4 is at leaf2; lan's tenant red has no border."""
    topology = load_topology(
        """
name: border
generate: {shape: leaf-spine, spines: 1, leaves: 2, fabric_mtu: 9050}
overlay:
  tenants:
    blue: {l3vni: 50010}
    red: {l3vni: 50020}
  networks:
    web:
      {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.0.0/24, "fd00::/64"], gateways: [10.1.0.1, "fd00::1"],
       untagged: [h1, h4]}
    lan: {vlan: 20, l2vni: 10020, tenant: red, subnets: [10.2.0.0/24], gateways: [10.2.0.1], untagged: [h2]}
  border:
    - {router: h4, asn: 65010, prefixes: [0.0.0.0/0, "2001:db8::/48"]}
"""
    )
    plan = plan_addresses(topology)
    expected = expected_overlay(topology, plan)
    (_, near), (_, far) = expected["leaf2"], expected["leaf1"]
    assert isinstance(near, TenantRoutes)
    assert isinstance(far, TenantRoutes)
    link_local = str(plan["h4"].interfaces["eth1"].link_local)
    assert near.vteps == {
        ("blue", "0.0.0.0/0"): frozenset({"10.1.0.3"}), ("blue", "2001:db8::/48"): frozenset({link_local})
    }  # fmt: skip
    assert far.vteps == dict.fromkeys(near.vteps, frozenset({"10.252.0.2"}))
