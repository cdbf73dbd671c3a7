"""Differences among the nodes of a fabric: none in a healthy one, and each kind of fault is named."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.audit.audited import NodeAudit, UnreadPart
from lab.audit.objects.device_objects import PortAudit
from lab.audit.objects.kernel_objects import (
    AddressAudit,
    InterfaceAudit,
    NeighbourAudit,
    NftRuleAudit,
    QdiscAudit,
    RouteAudit,
    SysctlAudit,
    VlanAudit,
)
from lab.audit.objects.routing_objects import BfdSessionAudit, BgpSessionAudit, DaemonAudit, FrrLineAudit
from lab.audit.rules.port_rules import of_port
from lab.audit.without_plan import differences_without_plan
from lab.model.load import read_topology
from lab.model.topology import Role
from tests.unit.audit.made_fabric import STATE, TOPOLOGY, changed, healthy

if TYPE_CHECKING:
    from collections.abc import Callable


def port(node: NodeAudit, interface: str, **settings: str) -> NodeAudit:
    """The node with other settings of one port."""
    ports = [
        replace(each, settings_in_full={**each.settings_in_full, **settings}) if each.interface == interface else each
        for each in node.ports
    ]
    return replace(node, ports=tuple(ports))


@pytest.mark.parametrize("file", ["clos-2x2", "clos-2x4", "clos-3tier", "rail-optimised", "one-leaf", "four-spines"])
def test_a_healthy_fabric_has_no_differences(file: str) -> None:
    topology = read_topology(Path(__file__).parents[3] / "topologies" / f"{file}.yaml")
    assert differences_without_plan(healthy(topology), topology) == []


@pytest.mark.parametrize(
    ("node", "change", "difference"),
    [
        ("leaf1", lambda node: replace(node, sysctls=(SysctlAudit("net.ipv4.ip_forward", "0"), *node.sysctls[1:])),
         ("leaf1", "sysctl net.ipv4.ip_forward", "value", "0", "1")),
        ("leaf2", lambda node: replace(
            node, sysctls=(*node.sysctls[:-1], replace(node.sysctls[-1], value="1"))),
         ("leaf2", "sysctl net.ipv4.conf.swp4.rp_filter", "value", "1", "0")),
        ("leaf1", lambda node: replace(
            node, interfaces=(replace(node.interfaces[0], mtu=1500), *node.interfaces[1:])),
         ("leaf1", "interface swp1", "mtu", "1500", "9000")),
        ("leaf1", lambda node: replace(
            node, interfaces=(replace(node.interfaces[0], carrier=False), *node.interfaces[1:])),
         ("leaf1", "interface swp1", "carrier", "no", "yes")),
        ("leaf3", lambda node: replace(node, qdiscs=(
            replace(node.qdiscs[0], options={"rate": "500"}), *node.qdiscs[1:])),
         ("leaf3", "qdisc swp1 root", "rate", "500", "1000")),
        ("leaf3", lambda node: replace(node, qdiscs=(*node.qdiscs, QdiscAudit("swp1", "1:1", "netem", "2:"))),
         ("leaf3", "qdisc swp1 1:1", "presence", "present", "absent")),
        ("leaf4", lambda node: replace(node, rules=()),
         ("leaf4", "rule inet 32766", "presence", "absent", "present: action lookup main")),
        ("leaf4", lambda node: replace(node, nft=(NftRuleAudit("inet t c", "drop", 4, 400),)),
         ("leaf4", "nft inet t c drop", "presence", "present", "absent")),
        ("leaf4", lambda node: replace(node, frr=tuple(
            replace(each, line=each.line.replace("maximum-paths 64", "maximum-paths 1")) for each in node.frr)),
         ("leaf4", "frr router bgp 4200100004 / maximum-paths", "value", "1", "64")),
        ("leaf1", lambda node: replace(node, routes=(
            replace(node.routes[0], next_hops=node.routes[0].next_hops[:1]), *node.routes[1:])),
         ("leaf1", f"{STATE.nodes['leaf1'].routes[0].identity}", "next hops",
          STATE.nodes["leaf1"].routes[0].next_hops[0], "2 next hops")),
        ("leaf1", lambda node: replace(node, routes=(
            replace(node.routes[0], next_hops=(), type="blackhole", protocol="static"), *node.routes[1:])),
         ("leaf1", f"{STATE.nodes['leaf1'].routes[0].identity}", "next hops", "blackhole", "2 next hops")),
        ("leaf1", lambda node: replace(node, routes=node.routes[1:]),
         ("leaf1", f"route {STATE.nodes['leaf1'].routes[0].prefix}", "presence", "absent", "present")),
        ("h1", lambda node: replace(node, routes=(
            RouteAudit("0.0.0.0/0", "main", "100", "unicast", "static", ("via 10.0.0.9 dev eth1",)),)),
         ("h1", "route 0.0.0.0/0 metric 100", "gateway", "10.0.0.9", "10.0.0.0 of leaf1, protocol static")),
        ("h1", lambda node: replace(node, neighbours=(
            NeighbourAudit("eth1", "10.0.0.0", "02:00:00:00:00:09", permanent=False, state="REACHABLE"),)),
         ("h1", "neighbour 10.0.0.0 eth1", "mac", "02:00:00:00:00:09",
          next(each.mac for each in STATE.nodes["leaf1"].interfaces if each.name == "swp3"))),
        ("h2", lambda node: replace(node, addresses=(AddressAudit("eth1", "10.0.0.1/31", "global"),)),
         ("h2", "address 10.0.0.1/31 eth1", "owner", "h1, h2", "h1")),
        ("spine1", lambda node: replace(node, routes=(*node.routes, RouteAudit(
            "10.0.0.3/32", "main", "", "unicast", "boot", ("via fe80::1 dev swp4",)))),
         ("spine1", "route 10.0.0.3/32", "presence", "present: via fe80::1 dev swp4", "absent")),
        ("leaf1", lambda node: replace(node, routes=(*node.routes, RouteAudit(
            "10.0.0.9/32", "main", "", "prohibit", "boot", ()))),
         ("leaf1", "route 10.0.0.9/32", "presence", "present: prohibit", "absent")),
        ("leaf1", lambda node: replace(node, sysctls=(*node.sysctls[:3], replace(node.sysctls[3], value="2"),
                                                      *node.sysctls[4:])),
         ("leaf1", "sysctl net.ipv4.conf.swp3.rp_filter", "value", "2", "0")),
        ("leaf2", lambda node: replace(node, daemons=(DaemonAudit("bgpd", False),)),
         ("leaf2", "daemon bgpd", "running", "no", "yes")),
        ("leaf2", lambda node: replace(node, bgp=(BgpSessionAudit(
            "swp1", "", "Active", 1, 2, 0, 0, (), 0, 1, 1, "BFD down received", 4, {}),)),
         ("leaf2", "bgp session swp1", "state", "Active", "Established")),
        ("h3", lambda _: NodeAudit("h3", "host", unread=(UnreadPart("kernel", "it is gone"),)),
         ("h3", "kernel", "answer", "it is gone", "answers")),
        ("leaf3", lambda node: port(node, "swp1", **{"pfc.priorities": "16"}),
         ("leaf3", "port swp1", "pfc.priorities", "16", "8")),
        ("leaf3", lambda node: port(node, "swp1", **{"queues.3.ecn.kmin": "7"}),
         ("leaf3", "port swp1", "queues.3.ecn.kmin", "7", "9")),
    ],
)  # fmt: skip
def test_a_fault_is_named(
    node: str, change: Callable[[NodeAudit], NodeAudit], difference: tuple[str, str, str, str, str]
) -> None:
    assert difference in changed(node, change)


def test_of_a_link_that_is_shut_at_one_end_that_end_differs_alone() -> None:
    """The other end has no carrier for that reason. A fix must not shut it as well."""
    nodes = dict(STATE.nodes)
    for name, interface, shut in (("h1", "eth1", True), ("leaf1", "swp3", False)):
        nodes[name] = replace(nodes[name], interfaces=tuple(
            replace(each, up=not shut, carrier=False) if each.name == interface else each
            for each in nodes[name].interfaces
        ))  # fmt: skip
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.node, each.object, each.field, each.expected) for each in found] == [
        ("h1", "interface eth1", "up", "yes")
    ]


def test_a_gateway_that_lost_its_link_local_address_is_no_fault_of_the_route() -> None:
    through = replace(STATE.nodes["spine1"].routes[0], next_hops=("via fe80::1 dev swp1",))
    known = replace(STATE.nodes["spine1"], routes=(through, *STATE.nodes["spine1"].routes[1:]))
    other = AddressAudit("swp1", "fe80::2/64", "link")
    for addresses, expected in (((), []), ((other,), [("spine1", "gateway", "an address of leaf1")])):
        leaf = replace(STATE.nodes["leaf1"], addresses=(*STATE.nodes["leaf1"].addresses, *addresses))
        nodes = {**STATE.nodes, "leaf1": leaf, "spine1": known}
        found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
        assert [(each.node, each.field, each.expected) for each in found] == expected


def test_a_node_whose_kernel_does_not_answer_makes_no_route_to_it_wrong() -> None:
    """Its addresses are not known."""
    nodes = dict(STATE.nodes)
    gateway = RouteAudit("0.0.0.0/0", "main", "100", "unicast", "static", ("via 10.0.0.0 dev eth1",))
    nodes["h1"] = replace(nodes["h1"], routes=(gateway,))
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []
    nodes["leaf1"] = NodeAudit("leaf1", "leaf", unread=(UnreadPart("kernel", "gone"),))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert {each.node for each in found} == {"leaf1"}


def unadvertised(*more: RouteAudit, withdrawn: int = 1) -> list[tuple[str, str, str]]:
    """Differences if leaf4 does not advertise networks of its hosts, and spine1 has further routes."""
    mine = [f"10.0.0.{2 * number}/31" for number in range(8)]
    lost = mine[-withdrawn:]
    nodes = dict(STATE.nodes)
    for name, node in nodes.items():
        kept = tuple(each for each in node.routes if each.prefix not in lost)
        own = [each.address for each in node.addresses if each.interface != "lo"] if node.role == "leaf" else []
        nets = sorted({str(ip_interface(each).network) for each in own} & {*mine})
        linked = tuple(RouteAudit(each, "main", "", "unicast", "kernel", ("dev swp3",)) for each in nets)
        nodes[name] = replace(node, routes=(*kept, *linked, *(more if name == "spine1" else ())))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [(each.node, each.object, each.field) for each in found]


def test_a_network_of_hosts_that_no_other_switch_has_is_not_advertised() -> None:
    lost = "10.0.0.14/31"
    assert unadvertised() == [("leaf4", f"route {lost}", "advertised")]
    assert unadvertised(withdrawn=8) == [], "none may be, by design"
    aggregate = RouteAudit("10.0.0.0/24", "main", "20", "unicast", "bgp", ("dev swp4",))
    assert unadvertised(aggregate) == []
    default = RouteAudit("0.0.0.0/0", "main", "20", "unicast", "bgp", ("dev swp4",))
    assert unadvertised(default) == [("leaf4", f"route {lost}", "advertised")]


@pytest.mark.parametrize(
    ("context", "option", "having", "line"),
    [
        ("router ospf", " area 0.0.0.0", 7, "router ospf / network 10.0.0.14/31 area 0.0.0.0"),
        ("router bgp {} / address-family ipv4 unicast", "", 7,
         "router bgp 4 / address-family ipv4 unicast / network 10.0.0.14/31"),
        ("router ospf", " area 0.0.0.0", 3, ""),
    ],
    ids=["OSPF", "BGP", "few"],
)  # fmt: skip
def test_the_line_that_advertises_a_network_is_that_of_other_switches(
    context: str, option: str, having: int, line: str
) -> None:
    """``having`` of the eight networks of hosts are advertised by such a line, and that of leaf4 is missing."""
    nodes = dict(STATE.nodes)
    for name, node in nodes.items():
        own = sorted({str(ip_interface(each.address).network) for each in node.addresses if each.interface != "lo"})
        mine = context.format(name[-1])
        lines = [f"{mine} / network {each}{option}" for each in own if int(each[7:-3]) // 2 < having]
        kept = tuple(each for each in node.routes if each.prefix != "10.0.0.14/31")
        linked = tuple(RouteAudit(each, "main", "", "unicast", "kernel", ("dev swp3",)) for each in own)
        nodes[name] = replace(
            node, routes=(*kept, *(linked if name.startswith("leaf") else ())),
            frr=tuple(map(FrrLineAudit, [mine, f"{mine} / maximum-paths 64", *lines])) if node.daemons else (),
        )  # fmt: skip
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    (silent,) = (each for each in found if each.field == "advertised")
    assert silent.expected == (f"yes, by {line}" if line else "yes")


def test_networks_of_an_ip_version_that_no_switch_routes_are_not_missing() -> None:
    """Some hosts have IPv6 addresses in a fabric that routes IPv4 only."""
    nodes = dict(STATE.nodes)
    for number, name in enumerate(("leaf1", "leaf2", "leaf3")):
        address = AddressAudit("swp3", f"fd00:{number}::1/64", "global")
        route = RouteAudit(f"fd00:{number}::/64", "main", "256", "unicast", "kernel", ("dev swp3",))
        node = nodes[name]
        nodes[name] = replace(node, addresses=(*node.addresses, address), routes=(*node.routes, route))
    for name in ("leaf1", "leaf2", "leaf3", "leaf4"):
        node = nodes[name]
        nets = sorted({str(ip_interface(each.address).network) for each in node.addresses if "." in each.address
                       and each.interface != "lo"})  # fmt: skip
        own = tuple(RouteAudit(each, "main", "", "unicast", "kernel", ("dev swp3",)) for each in nets)
        nodes[name] = replace(node, routes=(*node.routes, *own))
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []


def with_default_routes(**more: RouteAudit) -> list[tuple[str, str, str]]:
    """Differences of a fabric whose hosts have default routes, and some another one as well."""
    nodes = dict(STATE.nodes)
    for host in TOPOLOGY.hosts:
        gateway = f"10.0.0.{2 * int(host.name[1:]) - 2}"
        usual = RouteAudit("0.0.0.0/0", "main", "100", "unicast", "static", (f"via {gateway} dev eth1",))
        added = (more[host.name],) if host.name in more else ()
        nodes[host.name] = replace(nodes[host.name], routes=(usual, *added))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    return [(each.node, each.object, each.expected) for each in found]


def test_a_local_route_takes_packets_for_another_node() -> None:
    wrong = RouteAudit("10.0.0.9/32", "local", "", "local", "boot", ("dev lo",))
    assert changed("spine1", lambda node: replace(node, routes=(*node.routes, wrong))) == [
        ("spine1", "route 10.0.0.9/32 table local", "presence", "present: dev lo", "absent")
    ]
    own = RouteAudit(STATE.nodes["spine1"].addresses[0].address, "local", "", "local", "boot", ("dev lo",))
    assert changed("spine1", lambda node: replace(node, routes=(*node.routes, own))) == []


def test_a_default_route_that_takes_precedence_over_that_of_siblings_is_a_difference() -> None:
    assert with_default_routes() == []
    first = RouteAudit("0.0.0.0/0", "main", "", "unicast", "boot", ("dev eth1",))
    assert with_default_routes(h3=first) == [("h3", "route 0.0.0.0/0", "absent")]


def test_the_only_default_route_of_a_node_takes_precedence_over_none() -> None:
    """Hosts have other metrics than siblings, and each VRF has an unreachable default route in a table of its own."""
    nodes = dict(STATE.nodes)
    for number, host in enumerate(TOPOLOGY.hosts):
        gateway = f"via 10.0.0.{2 * int(host.name[1:]) - 2} dev eth1"
        route = RouteAudit("0.0.0.0/0", "main", str(100 * (number // 3) or ""), "unicast", "static", (gateway,))
        nodes[host.name] = replace(nodes[host.name], routes=(route,))
    for leaf in TOPOLOGY.having(Role.LEAF):
        last = RouteAudit("0.0.0.0/0", f"of-{leaf.name}", "4278198272", "unreachable", "static", ())
        nodes[leaf.name] = replace(nodes[leaf.name], routes=(*nodes[leaf.name].routes, last))
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []


def test_the_gateway_of_a_host_behind_a_bridged_port_is_an_address_of_some_node() -> None:
    """The port has no addresses: this is no sign that it lost one."""
    leaf = STATE.nodes["leaf1"]
    bridged = replace(
        leaf,
        interfaces=tuple(replace(each, master="br0" if each.name == "swp3" else "") for each in leaf.interfaces),
        addresses=tuple(
            replace(each, interface="br0") if each.interface == "swp3" else each for each in leaf.addresses
        ),
    )
    for gateway, expected in (("10.0.0.0", []), ("10.0.0.99", [("h1", "gateway", "10.0.0.99")])):
        route = RouteAudit("0.0.0.0/0", "main", "100", "unicast", "static", (f"via {gateway} dev eth1",))
        nodes = {**STATE.nodes, "leaf1": bridged, "h1": replace(STATE.nodes["h1"], routes=(route,))}
        found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
        assert [(each.node, each.field, each.value) for each in found if each.node == "h1"] == expected


def test_a_route_with_a_smaller_mtu_than_its_port_is_a_difference() -> None:
    learned = STATE.nodes["leaf1"].routes[0]

    def found(metrics: str) -> list[tuple[str, str, str, str, str]]:
        small = replace(learned, options={"metrics": metrics})
        return changed("leaf1", lambda node: replace(node, routes=(small, *node.routes[1:])))

    assert found('[{"mtu": 1400}]') == [("leaf1", learned.identity, "mtu", "1400", "9000")]
    assert found('[{"mtu": 9000}]') == found('[{"advmss": 1400}]') == []


def test_a_sysctl_is_of_its_node_even_if_the_other_end_of_the_link_has_the_same() -> None:
    """Hosts do not forward. A leaf's port to one of them that does not, either, is a fault."""
    nodes = dict(STATE.nodes)
    for name, node in nodes.items():
        ports = [each.name for each in node.interfaces]
        forwards = "1" if node.role in {"leaf", "spine"} else "0"
        values = {each: "0" if (name, each) == ("leaf2", "swp4") else forwards for each in ports}
        more = tuple(SysctlAudit(f"net.ipv4.conf.{each}.forwarding", value) for each, value in values.items())
        nodes[name] = replace(node, sysctls=(*node.sysctls, *more))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.node, each.object, each.value) for each in found] == [
        ("leaf2", "sysctl net.ipv4.conf.swp4.forwarding", "0")
    ]


def test_a_route_of_no_address_in_the_fabric_or_of_all_siblings_is_no_difference() -> None:
    elsewhere = RouteAudit("192.0.2.0/24", "main", "", "unicast", "static", ("dev swp3",))
    assert changed("leaf1", lambda node: replace(node, routes=(*node.routes, elsewhere))) == []
    usual = RouteAudit("10.0.0.0/8", "main", "", "blackhole", "static", ())
    nodes = {
        name: replace(node, routes=(*node.routes, usual)) if node.role == "leaf" else node
        for name, node in STATE.nodes.items()
    }
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []


@pytest.mark.parametrize(("count", "differs"), [(0, True), (3, False)])
@pytest.mark.parametrize(("node", "peer"), [("leaf1", "spine1"), ("spine1", "leaf1")])
def test_a_session_without_prefixes_differs_if_its_peer_has_some(
    node: str, peer: str, count: int, *, differs: bool
) -> None:
    found = changed(node, lambda each: replace(each, bgp=(session(count),)))
    assert ((node, "bgp session swp1", "ipv4Unicast prefixes", "0", f"those of {peer}") in found) is differs


def test_a_spine_with_one_leaf_has_nothing_to_advertise() -> None:
    topology = read_topology(Path(__file__).parents[3] / "topologies" / "one-leaf.yaml")
    state = healthy(topology)
    leaf = next(name for name, node in state.nodes.items() if node.role == "leaf")
    nodes = {**state.nodes, leaf: replace(state.nodes[leaf], bgp=(session(0),))}
    assert differences_without_plan(replace(state, nodes=nodes), topology) == []


@pytest.mark.parametrize(("remote_as", "differs"), [(2, True), (1, False)], ids=["another AS", "the same AS"])
def test_routes_that_the_other_end_s_as_has_sent_are_not_for_it(remote_as: int, *, differs: bool) -> None:
    """A leaf without hosts learns all it has from spines, and these reject a path with their own AS."""
    nodes = dict(STATE.nodes)
    cabled = {link.end_at("leaf1").interface for link in TOPOLOGY.links_of("leaf1")}
    up = [replace(session(3), peer=peer, remote_as=number) for peer, number in (("swp1", 1), ("swp2", remote_as))]
    learned = RouteAudit("10.9.9.0/31", "main", "", "unicast", "bgp", ("via fe80::1 dev swp2",))
    nodes["leaf1"] = replace(
        nodes["leaf1"], bgp=tuple(up), routes=(learned,),
        addresses=tuple(each for each in nodes["leaf1"].addresses if each.interface not in cabled),
    )  # fmt: skip
    nodes["spine1"] = replace(nodes["spine1"], bgp=(session(0),))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert any("ipv4Unicast prefixes" in str(each) for each in found) is differs


@pytest.mark.parametrize("protocol", ["bird", "dhcp", "keepalived", "openr", "250"])
def test_a_route_of_a_daemon_is_no_manual_one(protocol: str) -> None:
    """Adopted labs may run other daemons than FRR."""
    learned = RouteAudit("10.0.0.8/31", "main", "", "unicast", protocol, ("dev swp1",))
    assert changed("leaf1", lambda node: replace(node, routes=(*node.routes, learned))) == []


def session(count: int) -> BgpSessionAudit:
    """A session that is up, and has brought so many prefixes."""
    prefixes = {"ipv4Unicast": count}
    return BgpSessionAudit("swp1", "", "Established", 1, 2, 9, 3, ("ipv4Unicast",), 9, 1, 0, "", 0, prefixes)


def test_of_two_owners_the_one_outside_the_link_s_network_is_wrong() -> None:
    at_its_link = STATE.nodes["h1"].addresses[-1]
    on_loopback = AddressAudit("lo", f"{at_its_link.address.partition('/')[0]}/32", "global")
    found = changed("h4", lambda node: replace(node, addresses=(*node.addresses, on_loopback)))
    assert found == [("h4", f"address {on_loopback.address} lo", "owner", "h1, h4", "h1")]


@pytest.mark.parametrize(("vlan", "owners"), [(30, set()), (10, {"h1", "h3"})])
def test_hosts_of_tenants_in_different_vlans_may_have_the_same_address(vlan: int, owners: set[str]) -> None:
    nodes = dict(STATE.nodes)
    for leaf, host, number in (("leaf1", "h1", 10), ("leaf2", "h3", vlan)):
        vlans = (VlanAudit("swp3", number, ("PVID", "Egress Untagged")),)
        interfaces = tuple(
            replace(each, master="br0") if each.name == "swp3" else each for each in nodes[leaf].interfaces
        )
        own = tuple(each for each in nodes[leaf].addresses if each.interface != "swp3")
        nodes[leaf] = replace(nodes[leaf], vlans=vlans, interfaces=interfaces, addresses=own)
        nodes[host] = replace(nodes[host], addresses=(AddressAudit("eth1", "10.1.10.2/24", "global"),))
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert {each.node for each in found if each.field == "owner"} == owners


def test_a_link_that_differs_from_others_at_both_ends_is_no_difference() -> None:
    """Links may have rates of their own; only both ends must agree."""
    link = TOPOLOGY.links[0]
    nodes = dict(STATE.nodes)
    for end in link.ends:
        node = nodes[end.node]
        nodes[end.node] = replace(node, interfaces=tuple(
            replace(each, mtu=1500) if each.name == end.interface else each for each in node.interfaces
        ))  # fmt: skip
    assert differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY) == []


@pytest.mark.parametrize(("ends", "kmin", "listed"), [("l", "0", True), ("lh", "5", False)])
def test_a_port_that_is_configured_like_its_nic_is_no_property_of_the_link(
    ends: str, kmin: str, listed: bool
) -> None:
    """NICs have no Kmin. If both ends of a link differ from their siblings, the link does by design."""
    nodes = dict(STATE.nodes)
    for name, node in nodes.items():
        for each in node.ports if name.startswith("h") else ():
            nodes[name] = port(nodes[name], each.interface, **{"queues.3.ecn.kmin": "0"})
    link = next(each for each in TOPOLOGY.links if {end.node[0] for end in each.ends} == {"h", "l"})
    for end in (each for each in link.ends if each.node[0] in ends):
        nodes[end.node] = port(nodes[end.node], end.interface, **{"queues.3.ecn.kmin": kmin})
    found = differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)
    assert [(each.field, each.value, each.expected) for each in found] == [("queues.3.ecn.kmin", "0", "9")] * listed


def test_a_dead_node_does_not_hide_another_fault() -> None:
    nodes = {**STATE.nodes, "leaf4": NodeAudit("leaf4", "leaf", unread=(UnreadPart("kernel", "gone"),))}
    leaf = STATE.nodes["leaf1"]
    nodes["leaf1"] = replace(leaf, sysctls=(SysctlAudit("net.ipv4.ip_forward", "0"), *leaf.sysctls[1:]))
    found = [(each.node, each.field) for each in differences_without_plan(replace(STATE, nodes=nodes), TOPOLOGY)]
    assert ("leaf1", "value") in found
    assert ("leaf4", "answer") in found


def thresholds(**settings: str) -> list[str]:
    usual = {
        "pfc.priorities": "8", "trust": "dscp", "dscp_to_priority.26": "3", "priority_to_group.3": "3",
        "priority_to_queue.3": "3", "groups.3.xoff": "100000", "groups.3.xon": "50000",
        "queues.3.ecn.enabled": "yes", "queues.3.ecn.kmax": "90000",
    }  # fmt: skip
    audited = PortAudit("swp1", {**usual, **settings}, in_kernel=True)
    return [each.field for each in of_port("leaf1", audited, roce=True)]


def test_thresholds_are_in_order() -> None:
    assert thresholds() == []
    assert thresholds(**{"groups.3.xon": "100000"}) == ["groups.3.xon"]
    assert thresholds(**{"queues.3.ecn.kmax": "100001"}) == ["queues.3.ecn.kmax"]
    assert thresholds(**{"queues.3.ecn.kmax": "100001", "queues.3.ecn.enabled": "no"}) == []
    assert thresholds(**{"dscp_to_priority.26": "4"}) == ["dscp_to_priority.26"]
    (wrong,) = of_port("leaf1", PortAudit("swp1", {}, in_kernel=False), roce=False)
    assert (wrong.field, wrong.value) == ("in kernel", "no")


def test_a_bfd_session_by_address_is_at_both_ends() -> None:
    """FRR does not name the interface of a session by address as long as its neighbour has no next hop."""
    own = STATE.nodes["spine1"].addresses[0].address.partition("/")[0]
    waiting = BfdSessionAudit("swp1", "10.0.0.1", "down", 1000, 1000, 3, 0.0, "control detection time expired")
    nodes = {
        "spine1": replace(STATE.nodes["spine1"], bfd=(waiting,)),
        "leaf1": replace(STATE.nodes["leaf1"], bfd=(replace(waiting, interface="", peer=own),)),
    }
    state = replace(STATE, nodes={**STATE.nodes, **nodes})
    found = [(each.node, each.field) for each in differences_without_plan(state, TOPOLOGY)]
    assert sorted(found) == [("leaf1", "status"), ("spine1", "status")]


@pytest.mark.parametrize("here", [(), (BfdSessionAudit("swp1", "fe80::2", "down", 1000, 1000, 3, 0.0, "ok"),)])
def test_a_bfd_session_that_only_one_end_has_is_missing_at_the_other(here: tuple[BfdSessionAudit, ...]) -> None:
    """The end that has one waits for the other. If both have one, both are down."""
    waiting = BfdSessionAudit("swp1", "fe80::1", "down", 1000, 1000, 3, 0.0, "neighbor signaled session down")
    nodes = {
        "spine1": replace(STATE.nodes["spine1"], bfd=(waiting,)), "leaf1": replace(STATE.nodes["leaf1"], bfd=here),
    }  # fmt: skip
    state = replace(STATE, nodes={**STATE.nodes, **nodes})
    found = [(each.node, each.interface, each.field) for each in differences_without_plan(state, TOPOLOGY)]
    both = [("spine1", "swp1", "status"), ("leaf1", "swp1", "status")]
    assert sorted(found) == (sorted(both) if here else [("leaf1", "swp1", "presence")])
    said = {(each.value, each.expected) for each in differences_without_plan(state, TOPOLOGY)}
    missing = ("absent: only timers of routing notice a dead link", "present, as at spine1:swp1")
    assert said == ({("down", "up")} if here else {missing})


@pytest.mark.parametrize("kind", ["macvlan", "ipvlan"])
def test_an_interface_that_takes_packets_of_another_one_is_listed_where_most_hosts_have_none(kind: str) -> None:
    taking = InterfaceAudit("mv0", kind, True, True, 9000, "02:00:00:00:00:77", "", 1000)

    def with_it(node: NodeAudit) -> NodeAudit:
        return replace(node, interfaces=(*node.interfaces, taking))

    (found,) = changed("h3", with_it)
    assert (found[:3], found[4]) == (("h3", "interface mv0", "presence"), "absent")
    assert found[3].startswith(f"present: kind {kind}")
    hosts = {name: with_it(node) for name, node in STATE.nodes.items() if node.role == "host"}
    assert changed("h3", lambda node: node, {**STATE.nodes, **hosts}) == []
    assert (
        changed("h3", lambda node: replace(node, interfaces=(*node.interfaces, replace(taking, kind="dummy")))) == []
    )


@pytest.mark.parametrize(("node", "port"), [("leaf1", "swp3"), ("h3", "eth1")])
def test_a_port_of_a_cable_that_does_not_exist_is_named(node: str, port: str) -> None:
    """It was renamed, deleted or moved. A node whose interfaces are not known lacks none."""
    loopback = InterfaceAudit("lo", "", True, True, 65536, "", "", 1000)
    known = STATE.nodes[node]
    left = tuple(each for each in known.interfaces if each.name != port)
    found = changed(node, lambda each: replace(each, interfaces=(loopback, *left)))
    assert (node, f"interface {port}", "presence", "absent", "present") in found
    assert not [each for each in changed(node, lambda each: replace(each, interfaces=left)) if each[3] == "absent"
                and each[1].startswith("interface")]  # fmt: skip
