"""Hosts on several leaves: what a bond is at each of its nodes, and what networks see of it."""

import json
from pathlib import Path

import pytest

from lab.model.addressing import plan_addresses
from lab.model.host_routes import host_routes
from lab.model.hosts import hosts_file
from lab.model.load import load_topology, read_topology
from lab.model.overlay.node_plan import BridgeMember
from lab.model.overlay.plan import OverlayPlan, plan_overlay
from lab.model.overlay.tenancy import tenants_of_ends
from lab.model.store import dump, restore
from lab.model.topology import Endpoint, Topology
from lab.routing.wait.evpn_expectations import Floods, Segments, expected_overlay

TOPOLOGIES = Path(__file__).parents[4] / "topologies"


@pytest.fixture(scope="module")
def topology() -> Topology:
    return read_topology(TOPOLOGIES / "multihomed.yaml")


@pytest.fixture(scope="module")
def overlay(topology: Topology) -> OverlayPlan:
    planned = plan_overlay(topology)
    assert planned is not None
    return planned


def test_a_bond_is_at_its_host_and_at_each_of_its_leaves(overlay: OverlayPlan) -> None:
    assert {node: [bond.members for bond in bonds] for node, bonds in overlay.bonds.items()} == {
        "h1": [("eth1", "eth2")], "leaf1": [("swp2",)], "leaf2": [("swp2",)]
    }  # fmt: skip
    leaf1, leaf2 = overlay.bonds["leaf1"][0], overlay.bonds["leaf2"][0]
    assert leaf1.preference > leaf2.preference
    assert (leaf1.others, leaf2.others) == (("leaf2",), ("leaf1",))


def test_its_identifier_is_of_type_3_with_the_mac_that_lacp_has_and_its_number(overlay: OverlayPlan) -> None:
    """RFC 7432 section 5: 10 octets."""
    esi = overlay.bonds["leaf1"][0].esi
    assert esi == "03:02:1a:00:00:00:02:00:00:01"
    assert len(bytes.fromhex(esi.replace(":", ""))) == 10


def test_the_bond_is_the_port_and_its_members_are_none(overlay: OverlayPlan) -> None:
    assert overlay.leaves["leaf1"].ports == (BridgeMember("swp3", 10, ()), BridgeMember("bond1", 10, ()))
    assert overlay.leaves["leaf2"].ports == (BridgeMember("bond1", 10, ()),)


def test_the_host_is_known_by_its_bond(topology: Topology) -> None:
    plan = plan_addresses(topology)
    own = plan["h1"].interfaces
    assert {name: str(each.address) for name, each in own.items()} == {
        "eth1": "None", "eth2": "None", "bond1": "10.1.10.1/24"
    }  # fmt: skip
    assert own["bond1"].mac == own["eth1"].mac
    assert plan["h1"].nics == ["bond1"]
    assert plan["h2"].nics == ["eth1"]
    assert "10.1.10.1 h1 h1-bond1\n" in hosts_file(plan)
    assert list(host_routes(plan["h1"])) == []


def test_both_leaves_are_flooded_to_and_expect_each_other(topology: Topology) -> None:
    expected = expected_overlay(topology, plan_addresses(topology))
    floods, segments = expected["leaf1"]
    assert floods == Floods({"vni10010": frozenset({"10.252.0.2", "10.252.0.3"})})
    assert segments == Segments({"bond1": frozenset({"swp2"})}, {"bond1": frozenset({"10.252.0.2"})})
    assert len(expected["leaf3"]) == 1


def test_a_bond_may_be_tagged_and_routed() -> None:
    text = (TOPOLOGIES / "multihomed.yaml").read_text()
    text = text.replace("untagged: [h1, h2, h3]", "untagged: [h2, h3]\n      tagged: [h1]\n      tenant: blue")
    text = text.replace("subnets: [10.1.10.0/24]", "subnets: [10.1.10.0/24]\n      gateways: [10.1.10.1]")
    topology = load_topology(text.replace("  networks:\n", "  tenants:\n    blue: {l3vni: 50010}\n  networks:\n"))
    planned = plan_overlay(topology)
    assert planned is not None
    assert [each.name for each in planned.hosts["h1"]] == ["bond1.10"]
    assert BridgeMember("bond1", 0, (10,)) in planned.leaves["leaf2"].ports
    assert tenants_of_ends(topology)[Endpoint("h1", "eth2")] == "blue"
    assert plan_addresses(topology)["h1"].interfaces["bond1"].address is None


def test_round_trip_and_recordings_of_before_there_were_bonds(topology: Topology) -> None:
    assert restore(dump(topology)) == topology
    data = json.loads(dump(topology))
    del data["overlay"]["bonds"]
    found = restore(json.dumps(data)).overlay
    assert found is not None
    assert found.bonds == ()
