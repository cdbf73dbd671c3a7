"""To which group a network floods, and what is told of one that cannot be."""

import json
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from lab.errors import InvalidInput
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.model.overlay.intent import Flooding, default_group, is_flooded
from lab.model.overlay.plan import plan_overlay
from lab.model.store import dump, restore
from lab.model.topology import Topology
from lab.routing.wait.evpn_expectations import Floods, Trees, expected_overlay

FILE = Path(__file__).parents[4] / "topologies" / "multicast.yaml"


@pytest.fixture(scope="module")
def topology() -> Topology:
    return read_topology(FILE)


def test_a_group_is_the_one_that_is_said_or_239_and_the_vni() -> None:
    """RFC 2365: 239.0.0.0/8 is a site's own. 10020 is 0x002724."""
    assert default_group(10020) == IPv4Address("239.0.39.36")
    assert default_group(2**24 - 1) == IPv4Address("239.255.255.255")


@pytest.mark.parametrize(
    ("group", "flooded"),
    [("224.0.0.5", True), ("239.0.0.200", True), ("239.128.0.1", True), ("239.0.1.0", False), ("239.1.0.5", False)],
)
def test_groups_with_the_mac_of_a_link_local_one_are_flooded_by_switches(group: str, *, flooded: bool) -> None:
    """RFC 1112 section 6.4: the MAC has the low 23 bits, 01:00:5e:00:00:xx for 224.0.0.0/24 (RFC 4541 2.1.2)."""
    assert is_flooded(IPv4Address(group)) is flooded


def test_no_group_is_made_of_a_vni_whose_group_switches_flood() -> None:
    assert [default_group(vni) for vni in (1, 255, 0x800001)] == [None, None, None]
    assert default_group(256) == IPv4Address("239.0.1.0")


def test_tunnels_of_networks_flood_to_their_groups(topology: Topology) -> None:
    overlay = plan_overlay(topology)
    assert overlay is not None
    groups = {leaf: {each.vni: str(each.group) for each in own.tunnels} for leaf, own in overlay.leaves.items()}
    both = {10010: "239.1.1.10", 10020: "239.0.39.36"}
    assert groups == {"leaf1": both, "leaf2": {10010: "239.1.1.10"}, "leaf3": both}


def test_links_between_switches_borrow_the_loopbacks_address(topology: Topology) -> None:
    """PIM's neighbours and reverse paths are of IPv4."""
    plan = plan_addresses(topology)["leaf1"]
    borrowed = {name: str(each.borrowed) for name, each in plan.interfaces.items() if each.borrowed is not None}
    assert borrowed == {"swp1": "10.253.0.1/32", "swp2": "10.253.0.1/32"}


def test_a_leaf_is_to_have_a_tree_to_itself_for_each_group_and_one_from_itself(topology: Topology) -> None:
    expected = expected_overlay(topology, plan_addresses(topology))
    assert [each for each in expected["leaf2"] if isinstance(each, Floods | Trees)] == [
        Floods({"vni10010": frozenset({"239.1.1.10"})}),
        Trees("10.252.0.2", frozenset({"swp1", "swp2"}), {"239.1.1.10": True}),
    ]


def test_nobody_waits_for_a_tree_from_a_leaf_that_is_alone_in_its_group() -> None:
    topology = load_topology(FILE.read_text().replace("untagged: [h2, h6]", "untagged: [h2]"))
    trees = next(
        each for each in expected_overlay(topology, plan_addresses(topology))["leaf1"] if isinstance(each, Trees)
    )
    assert trees.groups == {"239.1.1.10": True, "239.0.39.36": False}


def test_it_is_stored_and_recordings_of_before_have_copies(topology: Topology) -> None:
    assert restore(dump(topology)) == topology
    old = json.loads(dump(read_topology(FILE.with_name("l2vni.yaml"))))
    del old["overlay"]["flooding"]
    for fields in (9, 7):
        old["overlay"]["networks"] = [network[:fields] for network in old["overlay"]["networks"]]
        overlay = restore(json.dumps(old)).overlay
        assert overlay is not None
        assert overlay.flooding is Flooding.INGRESS
        assert [(network.rd, network.rt, network.group) for network in overlay.networks] == [(0, "", None)]


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("10.0.0.1", "10.0.0.1 is not a multicast group"),
        ("232.1.1.1", "232.1.1.1 is for known sources"),
        ("239.0.0.7", "239.0.0.7 has a MAC of 224.0.0.0/24"),
        ("ff3e::1", "is not an IPv4 address"),
        ("[239.1.1.1]", "write"),
    ],
)
def test_what_is_no_group_is_said_in_a_line(group: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="group") as caught:
        load_topology(FILE.read_text().replace("group: 239.1.1.10", f"group: {group}"))
    (problem,) = caught.value.problems
    assert why in str(problem)
