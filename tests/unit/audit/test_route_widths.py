"""Learned routes against the paths of the topology: weights, routes for a TOS, and switches that no route uses."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface
from typing import TYPE_CHECKING

import pytest

from lab.audit.objects.kernel_objects import AddressAudit, NeighbourAudit, RouteAudit
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.readers.kernel_reader import parse_routes
from lab.audit.rules.route_widths import drained_switches
from lab.audit.without_plan import differences_without_plan
from lab.model.load import read_topology
from tests.fabric.command import TOPOLOGIES
from tests.unit.audit.made_fabric import STATE, TOPOLOGY, changed, healthy

if TYPE_CHECKING:
    from typing import TypeAlias

    from lab.audit.audited import NodeAudit

    Found: TypeAlias = list[tuple[str, str, str, str, str]]

FIRST = STATE.nodes["leaf1"].routes[0]


def test_a_route_that_prefers_one_of_its_paths_is_a_difference() -> None:
    one, other = FIRST.next_hops
    weighted = replace(FIRST, next_hops=(f"{one} weight 100 onlink", other))
    assert changed("leaf1", lambda node: replace(node, routes=(weighted, *node.routes[1:]))) == [
        ("leaf1", FIRST.identity, "weights", "1 : 100", "1 : 1")
    ]


def test_all_other_leaves_may_weight_the_paths_to_a_leaf() -> None:
    """One of its links has a lower rate, for example. A single leaf with other weights than the others differs."""

    def found(*leaves: str) -> list[tuple[str, str, str]]:
        nodes = dict(STATE.nodes)
        for name in leaves:
            node = nodes[name]
            one, other = next(each for each in node.routes if each.prefix == FIRST.prefix).next_hops
            routes = tuple(
                replace(each, next_hops=(f"{one} weight 2", other)) if each.prefix == FIRST.prefix else each
                for each in node.routes
            )
            nodes[name] = replace(node, routes=routes)
        differences = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
        return [(each.node, each.field, each.expected) for each in differences]

    leaves = [name for name, node in STATE.nodes.items() if node.role == "leaf" and _learned(node)]
    assert len(leaves) == 3
    assert found(*leaves) == []
    assert found(leaves[0]) == [(leaves[0], "weights", "1 : 1")]


@pytest.mark.parametrize(("weights", "differing"), [((2, 1), 0), ((66, 33), 0), ((1, 2), 1), ((9, 1), 1)])
def test_a_leaf_with_links_of_different_rates_may_weight_them(weights: tuple[int, int], differing: int) -> None:
    links = (
        replace(each, rate=2 * each.rate)
        if str(each) in {"leaf1:swp1--spine1:swp1", "spine1:swp1--leaf1:swp1"}
        else each
        for each in TOPOLOGY.links
    )
    topology = replace(TOPOLOGY, links=tuple(links))
    hops = tuple(f"{hop} weight {weight}" for hop, weight in zip(FIRST.next_hops, weights, strict=True))
    leaf = STATE.nodes["leaf1"]
    routes = (replace(FIRST, next_hops=hops), *leaf.routes[1:])
    state = replace(STATE, nodes={**STATE.nodes, "leaf1": replace(leaf, routes=routes)})
    found = [each for each in differences_without_plan(state, topology) if each.field == "weights"]
    assert len(found) == differing


def test_half_of_the_routes_with_all_paths_of_the_topology_are_the_usual_ones() -> None:
    """A leaf with one session of two has half of the routes of a small fabric over one path: its own, and to it."""
    nodes, leaf = dict(STATE.nodes), "leaf4"
    own = {str(ip_interface(each.address).network) for each in nodes[leaf].addresses}
    few = set()
    for name in (each for each, node in nodes.items() if node.role == "leaf"):
        routes = [
            replace(each, next_hops=each.next_hops[:1]) if (name == leaf) != (each.prefix in own) else each
            for each in nodes[name].routes
        ]
        few |= {(name, each.prefix) for each, had in zip(routes, nodes[name].routes, strict=True) if each != had}
        nodes[name] = replace(nodes[name], routes=tuple(routes))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert {(each.node, each.object.split()[1]) for each in found if each.field == "next hops"} == few
    assert {each.expected for each in found} == {"2 next hops"}


def _learned(node: NodeAudit) -> bool:
    return any(each.prefix == FIRST.prefix and each.protocol == "bgp" for each in node.routes)


def test_a_route_for_packets_of_a_tos_is_one_of_its_own() -> None:
    """It stands beside the learned one, which all other packets take."""
    hops = [{"dev": hop.split()[-1], "gateway": "169.254.0.1"} for hop in FIRST.next_hops]
    learned = {"dst": FIRST.prefix, "protocol": "bgp", "metric": 20, "nexthops": hops}
    typed = {"type": "unreachable", "dst": FIRST.prefix, "tos": "0x08", "protocol": "boot", "metric": 20}
    usual, special = parse_routes([learned, typed])
    assert (usual.type, len(usual.next_hops), special.type) == ("unicast", 2, "unreachable")
    assert changed("leaf1", lambda node: replace(node, routes=(*node.routes, special))) == [
        ("leaf1", f"{FIRST.identity} tos 0x08", "presence", "present: unreachable", "absent")
    ]


def of_rails(
    *, table: str = "101", kind: str = "unicast", hops: tuple[str, ...] = ("via 10.1.0.77 dev eth2",)
) -> Found:
    """What differs if a host of several, with a default route for each of two NICs, has another second one."""
    nodes = dict(STATE.nodes)
    first, second = (
        RouteAudit("0.0.0.0/0", number, "", "unicast", "static", (f"via {gateway} dev {nic}",))
        for number, nic, gateway in (("100", "eth1", "10.0.0.77"), ("101", "eth2", "10.1.0.77"))
    )
    for host in TOPOLOGY.hosts:
        known = nodes[host.name]
        nic = replace(known.interfaces[0], name="eth2")
        address = AddressAudit("eth2", f"10.1.0.{host.name[1:]}/24", "global")
        nodes[host.name] = replace(
            known,
            routes=(first, second),
            interfaces=(*known.interfaces, nic),
            addresses=(*known.addresses, address),
        )
    changed_one = RouteAudit("0.0.0.0/0", table, "", kind, "static", hops)
    nodes["h3"] = replace(nodes["h3"], routes=(first, changed_one))
    found = changed("h3", lambda node: node, nodes)
    return [each for each in found if each[2] != "gateway"]


def test_a_default_route_by_another_port_than_that_of_siblings_is_a_difference() -> None:
    assert of_rails() == []
    assert of_rails(hops=("via 10.0.0.77 dev eth1",)) == [
        ("h3", "route 0.0.0.0/0 table 101", "next hops", "via 10.0.0.77 dev eth1", "dev eth2")
    ]
    assert of_rails(kind="throw", hops=()) == [("h3", "route 0.0.0.0/0 table 101", "next hops", "throw", "dev eth2")]
    absent = "h3", "route 0.0.0.0/0 table 101", "presence", "absent", "present: protocol static, dev eth2"
    assert absent in of_rails(table="102")


def test_a_node_without_an_address_at_the_port_of_siblings_needs_no_default_route() -> None:
    """It has only the other IP version, or a bond."""
    nodes = dict(STATE.nodes)
    usual = RouteAudit("0.0.0.0/0", "main", "", "unicast", "static", ("via 10.0.0.77 dev eth1",))
    for host in TOPOLOGY.hosts:
        nodes[host.name] = replace(nodes[host.name], routes=(usual,))

    def of(interface: str, address: str, *routes: RouteAudit) -> list[str]:
        own = (AddressAudit(interface, address, "global"),)
        found = changed("h3", lambda node: replace(node, routes=routes, addresses=own), nodes)
        return [each[2] for each in found if each[1].startswith("route") and each[2] != "gateway"]

    assert of("eth1", "10.0.0.5/31") == ["presence"]
    assert of("lo", "10.252.9.9/32") == ["presence"]
    assert of("eth1", "2001:db8::3/64") == []
    assert of("bond0", "10.0.0.5/31", replace(usual, next_hops=("via 10.0.0.77 dev bond0",))) == []


def test_a_default_route_for_a_tos_takes_precedence_with_any_metric() -> None:
    nodes = dict(STATE.nodes)
    for host in TOPOLOGY.hosts:
        gateway = f"via 10.0.0.{2 * int(host.name[1:]) - 2} dev eth1"
        nodes[host.name] = replace(
            nodes[host.name], routes=(RouteAudit("0.0.0.0/0", "main", "100", "unicast", "static", (gateway,)),)
        )
    typed = RouteAudit("0.0.0.0/0", "main", "900", "blackhole", "boot", (), tos="0x08")
    nodes["h3"] = replace(nodes["h3"], routes=(*nodes["h3"].routes, typed))
    found = changed("h3", lambda _: nodes["h3"], nodes)
    assert found == [("h3", "route 0.0.0.0/0 metric 900 tos 0x08", "presence", "present: blackhole", "absent")]


def without(spine_port: str, *, version: str = "") -> dict[str, NodeAudit]:
    """The nodes whose leaves do not use the port to a spine but to reach itself, for prefixes of an IP version."""

    def avoiding(route: RouteAudit) -> RouteAudit:
        hops = tuple(hop for hop in route.next_hops if not hop.endswith(f" {spine_port}"))
        return replace(route, next_hops=hops) if hops and version in route.prefix else route

    return {
        name: replace(node, routes=tuple(map(avoiding, node.routes))) if node.role == "leaf" else node
        for name, node in STATE.nodes.items()
    }


def test_a_switch_that_no_route_leads_over_is_drained() -> None:
    assert drained_switches(STATE.nodes, TOPOLOGY) == {}
    versions = frozenset(6 if ":" in route.prefix else 4 for route in STATE.nodes["leaf1"].routes)
    assert drained_switches(without("swp1"), TOPOLOGY) == {"spine1": versions}
    one_way = {name: replace(node, routes=tuple(
        replace(each, next_hops=each.next_hops[1:] or each.next_hops) for each in node.routes
    )) for name, node in STATE.nodes.items() if node.role == "spine"}  # fmt: skip
    assert drained_switches({**STATE.nodes, **one_way}, TOPOLOGY) == {}, "leaves are not between leaves"
    assert drained_switches(without("swp2", version="."), TOPOLOGY) == {"spine2": {4}}
    one_leaf = {**STATE.nodes, "leaf1": without("swp1")["leaf1"]}
    assert drained_switches(one_leaf, TOPOLOGY) == {}, "other leaves use it"
    nodes = without("swp1")
    down = tuple(replace(each, carrier=False) for each in nodes["spine1"].interfaces)
    assert drained_switches({**nodes, "spine1": replace(nodes["spine1"], interfaces=down)}, TOPOLOGY) == {}


def test_a_router_id_that_two_switches_have_is_a_difference_of_both() -> None:
    nodes = dict(STATE.nodes)
    for number, name in enumerate(("leaf1", "leaf2", "leaf3", "leaf4")):
        asn = f"router bgp 420010000{number + 1}"
        lines = (
            f"{asn} / bgp router-id 10.253.0.{min(number, 2)}",
            f"router ospf / ospf router-id 10.253.0.{number}",
            f"router isis fabric / net 49.0001.0102.5300.000{max(number, 1)}.00",
        )
        nodes[name] = replace(nodes[name], frr=(*nodes[name].frr, *map(FrrLineAudit, lines)))
    net, own = "49.0001.0102.5300.0001.00", "10.253.0.2"
    assert sorted(changed("leaf1", lambda _: nodes["leaf1"], nodes)) == [
        ("leaf1", "frr router isis fabric / net", "value", net, "another one than leaf2"),
        ("leaf2", "frr router isis fabric / net", "value", net, "another one than leaf1"),
        ("leaf3", "frr router bgp 4200100003 / bgp router-id", "value", own, "another one than leaf4"),
        ("leaf4", "frr router bgp 4200100004 / bgp router-id", "value", own, "another one than leaf3"),
    ]


def test_a_mac_of_ports_of_two_nodes_is_a_difference_of_both() -> None:
    """The ports of one node may have the same, like those of a bond."""
    (port,) = (each for each in STATE.nodes["h1"].interfaces if each.name == "eth1")
    found = changed("h3", lambda node: replace(node, interfaces=(replace(node.interfaces[0], mac=port.mac),)))
    assert [each for each in found if each[2] == "mac"] == [
        ("h1", "interface eth1", "mac", port.mac, "another one than h3"),
        ("h3", "interface eth1", "mac", port.mac, "another one than h1"),
    ]
    one = STATE.nodes["leaf1"].interfaces
    bonded = tuple(replace(each, mac=one[0].mac) for each in one)
    found = changed("leaf1", lambda node: replace(node, interfaces=bonded))
    assert not [each for each in found if each[1].startswith("interface")]


def test_what_most_nodes_of_a_tier_have_in_common_is_intended() -> None:
    """The MAC of a gateway, and the router ID of VRFs with one name, which need not be connected."""

    def shared(*leaves: str, context: str = " vrf RED") -> list[tuple[str, str]]:
        nodes = dict(STATE.nodes)
        for number, name in enumerate(leaves):
            line = FrrLineAudit(f"router bgp 420010000{number}{context} / bgp router-id 10.9.9.9")
            ports = nodes[name].interfaces
            known = tuple(replace(each, mac="02:00:00:00:00:99") if each.name == "swp3" else each for each in ports)
            nodes[name] = replace(nodes[name], frr=(*nodes[name].frr, line), interfaces=known)
        found = changed("leaf1", lambda node: node, nodes)
        return sorted((each[0], each[2]) for each in found if each[4].startswith("another one than "))

    assert shared("leaf1", "leaf2", "leaf3") == []
    assert shared("leaf1", "leaf2", "leaf3", context=" view RED") == []
    both = [("leaf1", "mac"), ("leaf1", "value"), ("leaf2", "mac"), ("leaf2", "value")]
    assert shared("leaf1", "leaf2") == both
    assert shared("leaf1", "leaf2", "leaf3", context="") == [(name, "value") for name in ("leaf1", "leaf2", "leaf3")]


def test_an_address_that_a_node_answers_for_is_a_difference() -> None:
    """Unless no other node of the fabric has it."""
    proxy = NeighbourAudit("eth1", "10.0.0.0", "", permanent=True, state="", proxy=True)
    foreign = replace(proxy, address="192.0.2.1")
    assert changed("h1", lambda node: replace(node, neighbours=(proxy, foreign))) == [
        ("h1", "neighbour proxy 10.0.0.0 eth1", "presence", "present", "absent")
    ]


def test_addresses_that_the_kernel_does_not_use_are_differences() -> None:
    flagged = {"10.0.0.1/31": ("deprecated",), "fd00::1/64": ("dadfailed",), "fd00::2/64": ("deprecated",)}
    found = tuple(AddressAudit("eth1", each, "global", flags) for each, flags in flagged.items())
    assert changed("h1", lambda node: replace(node, addresses=found)) == [
        ("h1", "address 10.0.0.1/31 eth1", "flags", "deprecated", "none"),
        ("h1", "address fd00::1/64 eth1", "flags", "dadfailed", "none"),
    ]


def test_a_route_to_a_neighbour_s_link_local_address_overrides_it() -> None:
    there = AddressAudit("swp1", "fe80::1/64", "link")
    nodes = {**STATE.nodes, "spine1": replace(
        STATE.nodes["spine1"], addresses=(*STATE.nodes["spine1"].addresses, there))}  # fmt: skip
    typed = RouteAudit("fe80::1/128", "main", "1", "blackhole", "boot", ())
    assert changed("leaf2", lambda node: replace(node, routes=(*node.routes, typed)), nodes) == [
        ("leaf2", "route fe80::1/128 metric 1", "presence", "present: blackhole", "absent")
    ]


def test_a_route_to_all_of_zeroconf_overrides_nothing() -> None:
    """Network managers add it, on whichever port."""
    there = AddressAudit("swp1", "169.254.3.4/16", "link")
    nodes = {**STATE.nodes, "spine1": replace(
        STATE.nodes["spine1"], addresses=(*STATE.nodes["spine1"].addresses, there))}  # fmt: skip
    wide = RouteAudit("169.254.0.0/16", "main", "1000", "unicast", "boot", ("dev eth1",))
    narrow = replace(wide, prefix="169.254.3.4/32", metric="", type="blackhole", next_hops=())
    assert changed("h3", lambda node: replace(node, routes=(*node.routes, wide)), nodes) == []
    assert changed("h3", lambda node: replace(node, routes=(*node.routes, narrow)), nodes)


def test_a_source_address_that_no_other_node_has_a_route_to_is_a_difference() -> None:
    """Answers to it do not come back. Kernel routes of a port's own networks have its address."""
    hop = ("via 10.0.0.0 dev eth1",)
    loopback = AddressAudit("lo", "10.252.9.9/32", "global")
    leaf = replace(STATE.nodes["leaf1"], addresses=(*STATE.nodes["leaf1"].addresses, loopback))
    far = RouteAudit("10.252.9.9/32", "main", "20", "unicast", "bgp", ("via 169.254.0.1 dev swp1",))
    nodes = {**STATE.nodes, "leaf1": leaf, "leaf2": replace(
        STATE.nodes["leaf2"], routes=(*STATE.nodes["leaf2"].routes, far))}  # fmt: skip

    def sourced(
        node: str, source: str, prefix: str = "0.0.0.0/0", *more: AddressAudit
    ) -> list[tuple[str, str, str, str]]:
        hops = hop if node == "h1" else ("via 169.254.0.1 dev swp1", "via 169.254.0.1 dev swp2")
        route = RouteAudit(prefix, "main", "100", "unicast", "static", hops, {"prefsrc": source})
        found = changed(node, lambda known: replace(
            known, routes=(*known.routes, route), addresses=(*known.addresses, *more)), nodes)  # fmt: skip
        return [(*each[:3], each[4]) for each in found if each[2] == "prefsrc"]

    assert sourced("h1", "10.77.0.1") == [("h1", "route 0.0.0.0/0 metric 100", "prefsrc", "10.0.0.1")]
    assert sourced("h1", "10.0.0.1") == []
    second = AddressAudit("eth1", "10.99.0.1/31", "global")
    assert sourced("h1", "10.99.0.1", "0.0.0.0/0", second)[0][3] == "10.0.0.1", "leaf1 is not in its network"
    nodes["leaf1"] = replace(leaf, addresses=(*leaf.addresses, AddressAudit("swp3", "10.99.0.0/31", "global")))
    assert sourced("h1", "10.99.0.1", "0.0.0.0/0", second) == []
    nodes["leaf1"] = replace(leaf, addresses=tuple(each for each in leaf.addresses if each.interface != "swp3"))
    assert sourced("h1", "10.99.0.1", "0.0.0.0/0", second) == [], "the port of a bridge has no address"
    nodes["leaf1"] = leaf
    assert sourced("leaf1", "10.252.9.9") == [], "leaf2 has a route to it"


def test_a_gateway_of_another_port_of_the_switch_is_wrong() -> None:
    """A switch need not answer ARP requests for it at this port. Interfaces without a cable can have the gateway."""

    def through(gateway: str, protocol: str = "static", *more: AddressAudit) -> list[tuple[str, ...]]:
        leaf = replace(STATE.nodes["leaf1"], addresses=(*STATE.nodes["leaf1"].addresses, *more))
        route = RouteAudit("0.0.0.0/0", "main", "100", "unicast", protocol, (f"via {gateway} dev eth1 onlink",))
        nodes = {**STATE.nodes, "leaf1": leaf}
        found = changed("h1", lambda node: replace(node, routes=(*node.routes, route)), nodes)
        return [each for each in found if each[2] == "gateway"]

    assert through("10.0.0.0") == []
    wrong = "h1", "route 0.0.0.0/0 metric 100", "gateway", "10.0.0.2", "10.0.0.0 of leaf1, protocol static"
    assert through("10.0.0.2") == [wrong]
    assert through("10.0.0.2", "bgp") == []
    assert through("10.9.9.9", "static", AddressAudit("vrrp4-1", "10.9.9.9/24", "global")) == []


def test_a_port_without_the_mac_of_frr_s_gateway_is_a_difference() -> None:
    """Packets of all routes by it are dropped, because nobody has that address."""
    (mac,) = (each.mac for each in STATE.nodes["leaf1"].neighbours if each.interface == "swp2")
    assert changed("leaf1", lambda node: replace(node, neighbours=node.neighbours[:1])) == [
        ("leaf1", "neighbour 169.254.0.1 swp2", "presence", "absent", f"present: mac {mac}")
    ]


def test_a_gateway_of_the_other_end_itself_answers_requests() -> None:
    """The entry of a neighbour that has the address itself may be missing for a while."""
    there = AddressAudit("swp1", "169.254.0.1/30", "link")
    nodes = {**STATE.nodes, "spine2": replace(
        STATE.nodes["spine2"], addresses=(*STATE.nodes["spine2"].addresses, there))}  # fmt: skip
    found = changed("leaf1", lambda node: replace(node, neighbours=()), nodes)
    assert [each[1] for each in found if each[2] == "presence"] == ["neighbour 169.254.0.1 swp1"]


def test_a_switch_that_only_routes_to_loopbacks_lead_over_is_drained() -> None:
    """It aggregates the networks of hosts, so that other paths to them are more specific."""
    hosts = {str(ip_interface(each.address).network) for node in STATE.nodes.values() for each in node.addresses
             if node.role == "leaf" and each.interface != "lo"}  # fmt: skip
    nodes = dict(STATE.nodes)
    for name in (each for each, node in nodes.items() if node.role == "leaf"):
        routes = [
            replace(each, next_hops=tuple(hop for hop in each.next_hops if "swp1" not in hop.split()))
            if each.prefix in hosts and len(each.next_hops) > 1 else each
            for each in nodes[name].routes
        ]  # fmt: skip
        nodes[name] = replace(nodes[name], routes=tuple(routes))
    assert any(each.prefix not in hosts and len(each.next_hops) > 1 for each in nodes["leaf1"].routes)
    assert drained_switches(nodes, TOPOLOGY) == {"spine1": {4}}


def test_of_two_leaves_one_without_a_route_that_all_other_switches_have_is_named() -> None:
    """It has most routes to the other leaf. If it has none, it may have a default route."""
    topology = read_topology(TOPOLOGIES / "rails.yaml")
    state = healthy(topology)

    def lacking(*prefixes: str, node: str = "leaf1") -> list[tuple[str, str]]:
        nodes = dict(state.nodes)
        nodes[node] = replace(
            nodes[node], routes=tuple(each for each in nodes[node].routes if each.prefix not in prefixes)
        )
        found = differences_without_plan(replace(state, nodes=nodes), topology)
        return [(each.node, each.object) for each in found if each.field == "presence"]

    others = [each.prefix for each in state.nodes["leaf1"].routes if each.prefix.startswith("10.0.0.")]
    assert others == ["10.0.0.2/31", "10.0.0.6/31", "10.0.0.10/31", "10.0.0.14/31"]
    assert lacking("10.0.0.6/31") == [("leaf1", "route 10.0.0.6/31")]
    assert lacking(*others) == []
    assert lacking("10.0.0.6/31", node="leaf2") == []
