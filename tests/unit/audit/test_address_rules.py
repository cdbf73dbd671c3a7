"""Addresses that several nodes have, or answer for: by intent, or by mistake."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface

import pytest

from lab.audit.objects.kernel_objects import AddressAudit, InterfaceAudit, NeighbourAudit, SysctlAudit, VlanAudit
from lab.audit.without_plan import differences_without_plan
from lab.model.load import read_topology
from tests.fabric.command import TOPOLOGIES
from tests.unit.audit.made_fabric import STATE, TOPOLOGY, healthy

SERVICE = AddressAudit("lo", "198.51.100.53/32", "global")
PROXY = NeighbourAudit("swp3", "10.0.0.15", "", permanent=True, state="", proxy=True)


def with_addresses(
    *nodes: str, address: AddressAudit = SERVICE, instead: bool = False, without: str = ""
) -> set[str]:
    """Return the nodes that differ if some have an address more, or in place of the first of their loopback."""
    found = {name: node for name, node in STATE.nodes.items() if name != without}
    for name in nodes:
        own = found[name].addresses
        found[name] = replace(found[name], addresses=(*(own[1:] if instead else own), address))
    return {each.node for each in differences_without_plan(replace(STATE, nodes=found), TOPOLOGY)}


@pytest.mark.parametrize("nodes", [("h1", "h5"), ("leaf1", "leaf2"), ("leaf1", "leaf2", "leaf3", "leaf4")])
def test_nodes_of_a_tier_may_share_an_address_of_their_loopbacks(nodes: tuple[str, ...]) -> None:
    assert with_addresses(*nodes) == set()
    assert with_addresses(*nodes[:3], without="leaf4") == set()


def test_the_loopback_address_of_another_node_is_no_anycast() -> None:
    other = next(each for each in STATE.nodes["leaf1"].addresses if each.interface == "lo")
    assert with_addresses("leaf2", address=other) == {"leaf1", "leaf2"}
    assert {"leaf1", "leaf2"} <= with_addresses("leaf2", address=other, instead=True)
    assert {"leaf1", "leaf2"} <= with_addresses("leaf2", address=other, instead=True, without="leaf4")
    assert with_addresses("h1", "leaf1") == {"h1", "leaf1"}


def test_a_leaf_that_lost_one_of_several_addresses_of_its_loopback_is_named() -> None:
    """Packets of hosts pass. Other switches lose the route to the address of a router or a tunnel."""
    own = STATE.nodes["leaf2"].addresses
    loopbacks = [each for each in own if each.interface == "lo" and ":" not in each.address]
    assert len(loopbacks) == 2
    lost = replace(STATE.nodes["leaf2"], addresses=tuple(each for each in own if each != loopbacks[0]))
    found = differences_without_plan(replace(STATE, nodes={**STATE.nodes, "leaf2": lost}), TOPOLOGY)
    assert [(each.node, each.object, each.field, each.value, each.expected) for each in found] == [
        ("leaf2", "address lo", "IPv4 addresses", "1", "2")
    ]
    assert with_addresses("leaf2") == set(), "one more is by intent"


def test_most_leaves_may_answer_for_addresses_of_hosts() -> None:
    def differing(*leaves: str, more: NeighbourAudit | None = None) -> list[str]:
        nodes = dict(STATE.nodes)
        for name in leaves:
            nodes[name] = replace(nodes[name], neighbours=(*nodes[name].neighbours, PROXY))
        if more is not None:
            nodes["leaf1"] = replace(nodes["leaf1"], neighbours=(*nodes["leaf1"].neighbours, more))
        return [each.node for each in differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)]

    assert differing("leaf1") == ["leaf1"]
    assert differing("leaf1", "leaf2", "leaf3") == []
    of_leaf = next(each.address for each in STATE.nodes["leaf2"].addresses if each.interface == "lo")
    for more in (replace(PROXY, interface="swp1"), replace(PROXY, address=of_leaf.partition("/")[0])):
        assert differing("leaf1", "leaf2", "leaf3", more=more) == ["leaf1"]


@pytest.mark.parametrize("node", ["spine2", "leaf3"])
@pytest.mark.parametrize("lost", ["4", "46"])
def test_a_switch_without_the_address_of_its_loopback_is_named(node: str, lost: str) -> None:
    """Unnumbered sessions work without it, so that no packet of hosts shows it."""

    def is_kept(each: AddressAudit) -> bool:
        return each.interface != "lo" or str(ip_interface(each.address).version) not in lost

    nodes = {
        **STATE.nodes,
        node: replace(STATE.nodes[node], addresses=tuple(filter(is_kept, STATE.nodes[node].addresses))),
    }
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert ("address lo", "absent") in {(each.object, each.value) for each in found if each.node == node}
    assert not [each for each in found if each.object == "address lo" and each.node != node]


def with_link_local(*without: str, sysctl: str = "", master: str = "") -> list[tuple[str, str, str]]:
    """Return what differs if all ports of switches to switches have a link-local address, but some of leaf1."""
    nodes = dict(STATE.nodes)
    for name, node in nodes.items():
        ports = [each.name for each in node.interfaces if node.role != "host" and each.name in {"swp1", "swp2"}]
        own = [AddressAudit(port, f"fe80::{number}/64", "link") for number, port in enumerate(ports)
               if name != "leaf1" or port not in without]  # fmt: skip
        nodes[name] = replace(node, addresses=(*node.addresses, *own))
    leaf = nodes["leaf1"]
    bridged = tuple(replace(each, master=master) if each.name in without else each for each in leaf.interfaces)
    off = (SysctlAudit(sysctl, "1"),) if sysctl else ()
    nodes["leaf1"] = replace(leaf, interfaces=bridged, sysctls=(*leaf.sysctls, *off))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [(each.node, each.object, each.expected) for each in found if each.kind == "address"]


def test_a_port_without_the_link_local_address_of_its_siblings_is_named() -> None:
    """Unnumbered BGP needs it. Nothing else shows that it was deleted."""
    missing = "present: a link-local IPv6 address"
    assert with_link_local() == []
    assert with_link_local("swp1") == [("leaf1", "address swp1", missing)]
    assert len(with_link_local("swp1", "swp2")) == 2
    assert with_link_local("swp1", sysctl="net.ipv6.conf.swp1.disable_ipv6") == []
    assert with_link_local("swp1", master="br0") == []


@pytest.mark.parametrize(
    ("scope", "interface", "expected"), [("link", "swp1", "a link-local IPv6"), ("host", "lo", "an IPv4")]
)
def test_of_two_leaves_one_without_an_address_that_the_other_switches_have_is_named(
    scope: str, interface: str, expected: str
) -> None:
    """All ports between switches compare, and all loopbacks of switches."""
    topology = read_topology(TOPOLOGIES / "rails.yaml")
    state = healthy(topology)
    own = AddressAudit(interface, "fe80::1/64" if scope == "link" else "127.0.0.1/8", scope)
    nodes = {
        name: replace(node, addresses=(*node.addresses, own, replace(own, interface="swp2")))
        if node.role != "host" and name != "leaf1" else node
        for name, node in state.nodes.items()
    }  # fmt: skip
    found = differences_without_plan(replace(state, nodes=nodes), topology)
    named = [(each.node, each.object, each.expected) for each in found if each.kind == "address"]
    assert named == [("leaf1", f"address {interface}", f"present: {expected} address")]


def test_a_permanent_entry_for_a_host_behind_a_switch_has_its_mac_or_that_of_a_switch() -> None:
    """As in networks of an overlay, whose hosts resolve each other across leaves."""
    own = next(each for each in STATE.nodes["h5"].addresses if each.interface == "eth1")
    address = own.address.partition("/")[0]
    macs = {name: STATE.nodes[name].interfaces[0].mac for name in ("h5", "h6", "leaf1")}

    def differing(mac: str, *, permanent: bool = True, of: str = address) -> list[str]:
        entry = NeighbourAudit("eth1", of, mac, permanent=permanent, state="PERMANENT")
        node = STATE.nodes["h1"]
        changed = replace(node, neighbours=(*node.neighbours, entry))
        found = differences_without_plan(replace(STATE, nodes={**STATE.nodes, "h1": changed}), TOPOLOGY)
        return [f"{each.node} {each.field}" for each in found if each.kind == "neighbour"]

    assert differing("02:de:ad:00:00:01") == differing(macs["h6"]) == ["h1 mac"]
    assert differing(macs["h5"]) == differing(macs["leaf1"]) == []
    assert differing("02:de:ad:00:00:01", permanent=False) == [], "it was learned, and another host may have it"
    assert differing("02:de:ad:00:00:01", of="198.51.100.9") == [], "a device outside of the fabric"


def of_tenants(changes: dict[str, tuple[AddressAudit, ...]]) -> list[tuple[str, str, str, str, str]]:
    """What differs where h1 and h2 are in VLAN 30 and all other hosts in VLAN 10, with a gateway at each leaf."""
    nodes = dict(STATE.nodes)
    for number in range(1, 9):
        vlan = 30 if number < 3 else 10
        names = (f"10.9.{vlan}.{number}/24", *([f"fd00:10::{number}/64"] if vlan == 10 else []))
        own = tuple(AddressAudit("eth1", each, "global") for each in names)
        nodes[f"h{number}"] = replace(nodes[f"h{number}"], addresses=changes.get(f"h{number}", own))
    for leaf in ("leaf1", "leaf2", "leaf3", "leaf4"):
        vlan = 30 if leaf == "leaf1" else 10
        tagged = InterfaceAudit(f"vlan{vlan}", "vlan", True, True, 9000, "", "", 1000, {"id": str(vlan)})
        nodes[leaf] = replace(
            nodes[leaf],
            interfaces=(*nodes[leaf].interfaces, tagged),
            addresses=(*nodes[leaf].addresses, AddressAudit(f"vlan{vlan}", f"10.9.{vlan}.254/24", "global")),
            vlans=tuple(VlanAudit(name, vlan, ("PVID",)) for name in ("swp3", "swp4")),
        )
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [
        (each.node, each.object, each.field, each.value, each.expected) for each in found if each.kind == "address"
    ]


def test_a_vlan_may_have_no_addresses_of_a_version() -> None:
    """A tenant without IPv6 beside one with it. A host may have its address on a VLAN of its port."""
    assert of_tenants({}) == []
    lost = (AddressAudit("eth1", "10.9.10.5/24", "global"),)
    assert of_tenants({"h5": lost}) == [("h5", "address eth1", "presence", "absent", "present: an IPv6 address")]
    assert of_tenants({"h5": (replace(lost[0], interface="eth1.10"),)}) == []


def test_addresses_of_a_vlan_have_one_prefix_length() -> None:
    def differing(*addresses: str) -> list[tuple[str, str, str, str, str]]:
        of_ipv6 = AddressAudit("eth1", "fd00:10::5/64", "global")
        return of_tenants({"h5": (*(AddressAudit("eth1", each, "global") for each in addresses), of_ipv6)})

    assert differing("10.9.10.5/16") == [("h5", "address 10.9.10.5/16 eth1", "prefix length", "16", "24")]
    assert differing("10.9.10.5/32") == [("h5", "address 10.9.10.5/32 eth1", "prefix length", "32", "24")]
    assert differing("10.9.10.5/24", "10.9.10.200/32") == [], "the address of a service"
    assert differing("10.9.10.5/24", "10.8.0.5/16") == [], "another network"


def test_hosts_of_a_vlan_may_all_have_single_addresses() -> None:
    """Their gateways answer for all of them (proxy ARP), and have the network."""
    single: dict[str, tuple[AddressAudit, ...]] = {
        f"h{number}": (
            AddressAudit("eth1", f"10.9.10.{number}/32", "global"),
            AddressAudit("eth1", f"fd00:10::{number}/64", "global"),
        )
        for number in range(3, 9)
    }
    assert of_tenants(single) == []


def without_address(name: str, *nodes: str, more: object = None, wrong: str = "") -> list[tuple[str, str, str]]:
    """Return what differs in a fabric if ports of nodes lose their addresses, or have a wrong one."""
    topology = read_topology(TOPOLOGIES / f"{name}.yaml")
    state = healthy(topology)
    found = dict(state.nodes)
    for each in nodes:
        kept = tuple(
            address if address.interface == "lo" else replace(address, address=wrong)
            for address in found[each].addresses
            if address.interface == "lo" or wrong
        )
        found[each] = replace(found[each], addresses=kept)
    if isinstance(more, SysctlAudit):
        found[nodes[0]] = replace(found[nodes[0]], sysctls=(*found[nodes[0]].sysctls, more))
    if isinstance(more, NeighbourAudit):
        found["leaf2"] = replace(found["leaf2"], neighbours=(*found["leaf2"].neighbours, more))
    differences = differences_without_plan(replace(state, nodes=found), topology)
    return [(each.node, each.object, each.value) for each in differences if each.kind == "address"]


def test_a_missing_address_is_known_from_the_other_end_of_a_link_for_two() -> None:
    """Two leaves with a host each have no majority. If all leaves answer for others, that is by design."""
    assert without_address("ospf") == []
    assert without_address("ospf", "leaf1") == [("leaf1", "address 10.0.0.0/31 swp3", "absent")]
    assert without_address("ospf", "h2") == [("h2", "address 10.0.0.3/31 eth1", "absent")]
    assert without_address("ospf", "leaf1", "leaf2") == []
    assert without_address("ospf", "leaf1", more=SysctlAudit("net.ipv4.conf.swp3.proxy_arp", "1")) == []
    proxy = NeighbourAudit("swp3", "10.0.0.0", "", permanent=True, state="", proxy=True)
    assert without_address("ospf", "leaf1", more=proxy) == []
    assert without_address("ospf", "leaf1", wrong="10.0.0.8/31") == [], "the rules of routes name a wrong address"


def test_among_many_ports_a_missing_address_is_named_once() -> None:
    assert without_address("clos-2x4", "h3") == [("h3", "address 10.0.0.5/31 eth1", "absent")]
