"""Expected routes against paths counted by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.routing.daemons import Router
from lab.routing.show import BgpSession
from lab.routing.wait import route_expectations
from lab.routing.wait.evpn_expectations import TenantRoutes, expected_overlay
from lab.routing.wait.route_expectations import expectations, expected_routes
from lab.routing.wait.unconverged import RouteGap, compare

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def test_in_two_tiers_every_uplink_leads_to_every_leaf() -> None:
    topology = read_topology(TOPOLOGIES / "clos-2x4.yaml")
    expected = expected_routes(topology, plan_addresses(topology))
    assert set(expected) == {"spine1", "spine2", "leaf1", "leaf2", "leaf3", "leaf4"}
    # Three other leaves, each with loopback, VTEP, IPv6 loopback and two host links.
    assert len(expected["leaf1"]) == 3 * 5
    assert set(expected["leaf1"].values()) == {frozenset({"swp1", "swp2"})}


LOPSIDED = load_topology(
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


def test_longer_paths_are_not_expected() -> None:
    """leaf1 and leaf2 share spine1, and no other spine."""
    expected = expected_routes(LOPSIDED, plan_addresses(LOPSIDED))
    assert set(expected["leaf2"].values()) == {frozenset({"swp1"})}


def test_in_three_tiers_those_above_leaves_have_all_their_links_too() -> None:
    """Two pods of two spines: swp1 and swp2 of a spine are its leaves', swp1 to swp4 of a super-spine its spines'."""
    topology = read_topology(TOPOLOGIES / "clos-3tier.yaml")
    plan = plan_addresses(topology)
    expected = expected_routes(topology, plan)

    def hops(switch: str, leaf: str) -> frozenset[str]:
        return expected[switch][f"{plan[leaf].loopback4}/32"]

    assert hops("superspine1", "leaf1") == {"swp1", "swp2"}
    assert hops("superspine2", "leaf4") == {"swp3", "swp4"}
    up, down = {"swp1", "swp2"}, {"swp3", "swp4"}
    assert hops("spine1", "leaf3") == up
    assert hops("spine1", "leaf1") | hops("spine1", "leaf2") == down
    assert hops("leaf1", "leaf2") == hops("leaf1", "leaf3") == up


def test_a_spine_refuses_what_its_own_number_is_in() -> None:
    """By leaf2 and spine1 there is a way from spine2 to leaf1, and both spines have one AS number."""
    expected = expected_routes(LOPSIDED, plan_addresses(LOPSIDED))
    assert set(expected["spine2"].values()) == {frozenset(), frozenset({"swp1"})}
    assert expected["spine2"][f"{plan_addresses(LOPSIDED)['leaf1'].loopback4}/32"] == frozenset()


def test_a_gap_names_what_is_missing_and_what_is_too_much() -> None:
    wanted = {"10.0.0.0/31": frozenset({"swp1", "swp2"}), "10.0.0.2/31": frozenset({"swp1"})}
    actual = {"10.0.0.0/31": frozenset({"swp2"}), "10.0.0.2/31": frozenset({"swp1", "swp9"})}
    assert compare("leaf1", wanted, actual) == [
        RouteGap("leaf1", "10.0.0.0/31", ("swp1",), ()),
        RouteGap("leaf1", "10.0.0.2/31", (), ("swp9",)),
    ]
    assert str(compare("leaf1", wanted, {})[0]) == "leaf1: 10.0.0.0/31 has no next hop on swp1, swp2"


def test_each_session_between_loopbacks_must_be_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of two route reflectors a leaf has every route, and a session that is not there."""
    up = BgpSession("10.253.0.1", "spine1", "Established", prefixes=4, uptime=1.0)
    there = [up, replace(up, description="spine2", state="Active")]
    monkeypatch.setattr(route_expectations, "sessions", lambda _: there)
    topology = load_topology(
        """
name: reflected
generate: {shape: leaf-spine, spines: 2, leaves: 2, fabric_mtu: 9050}
overlay:
  design: ibgp
  tenants: {blue: {l3vni: 50010}}
  networks: {web: {vlan: 10, l2vni: 10010, tenant: blue, untagged: [h1, h3]}}
"""
    )
    *_, speakers = expectations(topology, plan_addresses(topology))["leaf1"]
    router = Router("leaf1", Namespace("rl-reflected.leaf1"), Path())
    assert [str(gap) for gap in speakers.gaps(router)] == ["leaf1: EVPN has no session with spine2"]
    there[1] = replace(there[1], state="Established")
    assert speakers.gaps(router) == []


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


OUTSIDE = {"0.0.0.0/0", "2001:db8::/48"}
EXITS = """
name: exits
generate:
  {shape: clos, pods: 2, superspines: 1, spines_per_pod: 1, leaves_per_pod: 3, hosts_per_leaf: 1, fabric_mtu: 9050}
overlay:
  tenants: {blue: {l3vni: 50010}}
  networks:
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.0.0/24], gateways: [10.1.0.1], untagged: [h1, h4]}
    two:
      {vlan: 20, l2vni: 10020, tenant: blue, subnets: [10.2.0.0/24, "fd00:2::/64"], gateways: [10.2.0.1, "fd00:2::1"],
       untagged: [h2, h5]}
    six: {vlan: 60, l2vni: 10060, tenant: blue, subnets: [10.6.0.0/24], gateways: [10.6.0.1], untagged: [h3]}
  border:
    - {router: h2, asn: 65010, prefixes: [0.0.0.0/0, "2001:db8::/48"]}
    - {router: h3, asn: 65011, prefixes: [0.0.0.0/0]}
    - {router: h5, asn: 65010, prefixes: [0.0.0.0/0, "2001:db8::/48"]}
"""


def _outside(text: str, leaf: str) -> dict[str, frozenset[str]]:
    """What a leaf must have of what is outside."""
    topology = load_topology(text)
    expected = expected_overlay(topology, plan_addresses(topology))[leaf]
    (routes,) = (each.vteps for each in expected if isinstance(each, TenantRoutes))
    return {prefix: hops for (_, prefix), hops in routes.items() if prefix in OUTSIDE}


def test_what_several_routers_tell_is_by_the_nearest_border_leaves_and_there_by_their_own() -> None:
    """h1 to h3 are in one pod, h4 to h6 in the other: AS paths are two switches longer from there."""
    assert _outside(EXITS, "leaf1") == {
        "0.0.0.0/0": {"10.252.0.2", "10.252.0.3"}, "2001:db8::/48": {"10.252.0.2"}
    }  # fmt: skip
    assert _outside(EXITS, "leaf4") == {prefix: {"10.252.0.5"} for prefix in OUTSIDE}
    assert _outside(EXITS, "leaf3") == {"0.0.0.0/0": {"10.6.0.2"}, "2001:db8::/48": {"10.252.0.2"}}
    assert _outside(EXITS, "leaf5")["0.0.0.0/0"] == {"10.2.0.3"}


def test_in_one_as_no_border_leaf_is_nearer_but_by_ospf() -> None:
    """Reflected routes have the AS path that they came with; a leaf still prefers its own router."""
    text = EXITS.replace("overlay:\n", "overlay:\n  design: ibgp\n")
    assert _outside(text, "leaf4")["0.0.0.0/0"] == {f"10.252.0.{number}" for number in (2, 3, 5)}
    assert _outside(text, "leaf3")["0.0.0.0/0"] == {"10.6.0.2"}
    over_ospf = text.replace("ibgp\n", "ibgp\n  underlay: ospf\n")
    assert _outside(over_ospf, "leaf4") == _outside(EXITS, "leaf4")


def test_a_subnet_comes_from_the_nearest_of_its_leaves() -> None:
    """leaf2 and leaf5 have it, and leaf1 is in the pod of the one."""
    for design, vteps in (("ebgp", {"10.252.0.2"}), ("ibgp", {"10.252.0.2", "10.252.0.5"})):
        topology = load_topology(EXITS.replace("overlay:\n", f"overlay:\n  design: {design}\n"))
        expected = expected_overlay(topology, plan_addresses(topology))["leaf1"]
        (routes,) = (each.vteps for each in expected if isinstance(each, TenantRoutes))
        assert routes["blue", "10.2.0.0/24"] == vteps


def test_a_leaf_with_two_routers_sends_by_both() -> None:
    """In a fabric of two tiers all other leaves are as near."""
    shape = "generate: {shape: leaf-spine, spines: 2, leaves: 3, hosts_per_leaf: 2, fabric_mtu: 9050}\n"
    text = f"name: two\n{shape}{EXITS[EXITS.index('overlay:') :]}"
    text = text.replace("[h2, h5]", "[h6, h5]").replace("router: h2", "router: h6")
    assert _outside(text, "leaf3") == {
        "0.0.0.0/0": {"10.2.0.2", "10.2.0.3"}, "2001:db8::/48": {"fe80::1a:ff:fe0a:1", "fe80::1a:ff:fe0b:1"}
    }  # fmt: skip
    assert _outside(text, "leaf1") == {
        "0.0.0.0/0": {"10.252.0.2", "10.252.0.3"}, "2001:db8::/48": {"10.252.0.3"}
    }  # fmt: skip
