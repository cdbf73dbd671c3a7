"""Rules and comparisons about the tenants of an overlay: L3VNIs, external routers, gateways and bonds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.comparisons.frr_lines import of_frr_lines
from lab.audit.objects.kernel_objects import AddressAudit, InterfaceAudit, QdiscAudit, RouteAudit, VlanAudit
from lab.audit.objects.routing_objects import DaemonAudit, FrrLineAudit
from lab.audit.placement import FabricRoles
from lab.audit.readers.router_reader import configuration_lines
from lab.audit.rules.fabric_rules import of_rules
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.routing.frr_config.render import render_router

if TYPE_CHECKING:
    from lab.model.topology import Topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
TENANT = read_topology(TOPOLOGIES / "tenant.yaml")
MULTIHOMED = read_topology(TOPOLOGIES / "multihomed.yaml")
ROUTER = "10.1.20.2"
"""The address of an external router, h5, behind leaf3."""
BGP = "router bgp 4200100003 vrf blue"


def lines_of(topology: Topology) -> dict[str, list[str]]:
    plan = plan_addresses(topology)
    routers = {each.name: render_router(topology, plan, each.name) for each in topology.switches}
    return {name: configuration_lines(each.integrated + each.managed) for name, each in routers.items()}


def lines_that_differ(found: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    nodes = {
        name: NodeAudit(name=name, role=str(TENANT.node(name).role), frr=tuple(map(FrrLineAudit, lines)))
        for name, lines in found.items()
    }
    nodes["h5"] = NodeAudit(
        name="h5", role="host", addresses=(AddressAudit("eth1", f"{ROUTER}/24", "global"),),
        daemons=(DaemonAudit("bgpd", True),), frr=(FrrLineAudit("router bgp 65010"),),
    )  # fmt: skip
    state = FabricAudit(TENANT.name, nodes)
    return [
        (each.node, each.object.removeprefix("frr "), each.value) for each in of_frr_lines(state, FabricRoles(TENANT))
    ]


def test_a_tenant_without_its_l3vni_at_one_leaf_is_named() -> None:
    found = lines_of(TENANT)
    assert "vrf blue / vni 50010" in found["leaf3"]
    found["leaf3"] = [each for each in found["leaf3"] if each != "vrf blue / vni 50010"]
    assert lines_that_differ(found) == [("leaf3", "vrf blue / vni 50010", "absent")]


def test_a_leaf_may_have_no_vrf_of_a_tenant() -> None:
    found = lines_of(TENANT)
    found["leaf3"] = [each for each in found["leaf3"] if "vrf red" not in each]
    assert [each for each in lines_that_differ(found) if "vni" in each[1]] == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{BGP} / neighbor {ROUTER} remote-as 65010", False),
        (f"{BGP} / neighbor {ROUTER} timers 3 9", False),
        (f"{BGP} / address-family ipv4 unicast / neighbor {ROUTER} activate", False),
        (f"{BGP} / address-family ipv4 unicast / neighbor {ROUTER} route-map NONE in", True),
        (f"{BGP} / neighbor 10.1.20.9 remote-as 65010", True),
    ],
)
def test_the_session_with_an_external_router_is_of_its_leaf_alone(line: str, named: bool) -> None:
    """Its filters are listed: they can be the reason that routes are missing."""
    found = lines_of(TENANT)
    found["leaf3"].append(line)
    assert lines_that_differ(found) == ([("leaf3", line, "present")] if named else [])


def gateways_that_differ(
    addresses: dict[str, tuple[str, ...]], *, vnis: dict[str, str] | None = None, own_macs: bool = False
) -> list[tuple[str, str, str]]:
    """What differs among the gateways of VLAN 10; h1 and h3 have 10.1.10.1 as their gateway."""
    default = RouteAudit("0.0.0.0/0", "main", "", "unicast", "boot", ("via 10.1.10.1 dev eth1",))
    nodes = {name: NodeAudit(name=name, role="host", routes=(default,)) for name in ("h1", "h3")}
    for leaf, mine in addresses.items():
        mac = f"02:00:00:00:00:0{leaf[-1]}" if own_macs else "02:1a:00:00:00:01"
        vni = (vnis or {}).get(leaf, "10010")
        nodes[leaf] = NodeAudit(
            name=leaf, role="leaf",
            interfaces=(InterfaceAudit("bridge", "bridge", True, True, 4300, "", "", 1000, {}),
                        InterfaceAudit("vlan10", "vlan", True, True, 4300, mac, "blue", 1000, {"id": "10"}),
                        InterfaceAudit("vni", "vxlan", True, True, 4300, "", "bridge", 1000, {"id": vni})),
            addresses=tuple(AddressAudit("vlan10", each, "global") for each in mine),
            vlans=(VlanAudit("vni", 10, ("PVID", "Egress Untagged")),),
        )  # fmt: skip
    found = of_rules(FabricAudit(TENANT.name, nodes), FabricRoles(TENANT))
    return [(each.node, each.object, each.value) for each in found if each.object.endswith("/24 vlan10")]


def test_gateways_with_one_mac_have_the_same_addresses() -> None:
    right, wrong = ("10.1.10.1/24",), ("10.1.10.254/24",)
    assert gateways_that_differ({"leaf1": right, "leaf2": right}) == []
    assert gateways_that_differ({"leaf1": right, "leaf2": wrong}) == [
        ("leaf2", "address 10.1.10.1/24 vlan10", "absent"),
        ("leaf2", "address 10.1.10.254/24 vlan10", "present"),
    ]
    assert gateways_that_differ({"leaf1": ("192.0.2.1/24",), "leaf2": wrong}) == [], "no host shows which is right"


def test_gateways_may_have_addresses_of_their_own() -> None:
    """Next to the shared one, with MACs of their own, or for another network in the same VLAN of another leaf."""
    right, wrong = ("10.1.10.1/24",), ("10.1.10.254/24",)
    assert gateways_that_differ({"leaf1": right, "leaf2": wrong}, own_macs=True) == []
    assert gateways_that_differ({"leaf1": right, "leaf2": wrong}, vnis={"leaf2": "10020"}) == []


def bonds_that_differ(
    vlans: tuple[int, ...] = (10,), lines: tuple[str, ...] = ("evpn mh es-id 1",), queue: str = "noqueue"
) -> list[tuple[str, str, str]]:
    """What differs if leaf2's bond to h1 has these VLANs and lines; leaf1 has VLAN 10, a segment and a preference."""
    nodes = {
        "h1": NodeAudit(
            name="h1", role="host",
            interfaces=(bond("bond1"), *(member(each, "bond1") for each in ("eth1", "eth2"))),
            qdiscs=(QdiscAudit("bond1", "root", queue, "1:"),),
        ),
    }  # fmt: skip
    for leaf, name, own, said in (
        ("leaf1", "bond1", (10,), ("evpn mh es-id 1", "evpn mh es-df-pref 40000")),
        ("leaf2", "po7", vlans, lines),
    ):
        nodes[leaf] = NodeAudit(
            name=leaf, role="leaf", interfaces=(bond(name), member(port_to_h1(leaf), name)),
            vlans=tuple(VlanAudit(name, each, ("PVID", "Egress Untagged")) for each in own),
            frr=tuple(FrrLineAudit(f"interface {name} / {each}") for each in said),
        )  # fmt: skip
    found = of_rules(FabricAudit(MULTIHOMED.name, nodes), FabricRoles(MULTIHOMED))
    return [(each.node, each.object, each.value) for each in found]


def bond(name: str) -> InterfaceAudit:
    return InterfaceAudit(name, "bond", True, True, 4300, "", "", 1000)


def member(name: str, master: str) -> InterfaceAudit:
    return InterfaceAudit(name, "veth", True, True, 4300, "", master, 1000)


def port_to_h1(leaf: str) -> str:
    links = (link for link in MULTIHOMED.links_of(leaf) if link.other(link.end_at(leaf)).node == "h1")
    return next(links).end_at(leaf).interface


def test_the_leaves_of_a_bond_have_its_vlans_and_its_segment() -> None:
    assert bonds_that_differ() == [], "a preference as a forwarder is of one leaf"
    assert bonds_that_differ(vlans=()) == [("leaf2", "vlan 10 po7", "absent")]
    assert bonds_that_differ(lines=()) == [("leaf2", "frr interface po7 / evpn mh es-id 1", "absent")]
    assert bonds_that_differ(lines=("evpn mh es-id 2",)) == [], "that is the subject of esi-mismatch"


def test_netem_at_an_interface_without_a_cable_is_named() -> None:
    assert bonds_that_differ(queue="netem") == [("h1", "qdisc bond1 root", "netem")]
    assert bonds_that_differ(queue="fq") == []


def ports_that_differ(
    vlans: dict[str, dict[str, int]], *, state: str = "forwarding", tree: str = "0", up: bool = True
) -> list[tuple[str, str, str]]:
    """What differs among tunnels of VNI 10010, by leaf the VLAN of each port; leaf2's tunnel is in this state."""
    nodes = {}
    for leaf, mine in vlans.items():
        own = {"id": "10010", "port state": state if leaf == "leaf2" else "forwarding"}
        nodes[leaf] = NodeAudit(
            name=leaf, role="leaf",
            interfaces=(InterfaceAudit("bridge", "bridge", True, True, 4300, "", "", 1000, {"stp_state": tree}),
                        InterfaceAudit("vni", "vxlan", up or leaf != "leaf2", True, 4300, "", "bridge", 1000, own)),
            vlans=tuple(VlanAudit(port, vlan, ("PVID", "Egress Untagged")) for port, vlan in mine.items()),
        )  # fmt: skip
    found = of_rules(FabricAudit(TENANT.name, nodes), FabricRoles(TENANT))
    return [(each.node, each.object, each.value) for each in found if "vni" in each.object]


HERE = {"vni": 10, "bridge": 10}


def test_a_port_of_a_bridge_without_a_spanning_tree_forwards() -> None:
    both = {"leaf1": HERE, "leaf2": HERE}
    assert ports_that_differ(both) == []
    assert ports_that_differ(both, state="disabled") == [("leaf2", "interface vni", "disabled")]
    assert ports_that_differ(both, state="blocking", tree="1") == [], "the tree blocks it"
    assert ports_that_differ(both, state="disabled", up=False) == [], "that follows from the interface"


@pytest.mark.parametrize("wrong", [{"vni": 11, "bridge": 10}, {"bridge": 10}], ids=["another VLAN", "none"])
def test_a_tunnel_in_no_vlan_of_its_bridge_is_named(wrong: dict[str, int]) -> None:
    found = [("leaf2", "vlan 10 vni", "absent"), ("leaf2", "vlan 11 vni", "present")]
    assert ports_that_differ({"leaf1": HERE, "leaf2": wrong}) == found[: 1 + ("vni" in wrong)]


@pytest.mark.parametrize(
    "mine", [{"vni": 20, "bridge": 20}, {"vni": 20, "swp3": 20, "swp4": 10}, {"vni": 10}, {"vni": 30, "bridge": 40}]
)
def test_vlans_are_numbers_of_one_switch(mine: dict[str, int]) -> None:
    """A VNI can have another VLAN at each leaf, and one without ports yet."""
    assert ports_that_differ({"leaf1": HERE, "leaf2": mine}) == []
