"""Differences without harm: a border leaf's neighbours and routes, and neighbour entries with the right MAC."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.audited import NodeAudit
from lab.audit.comparisons.intended import Intentions
from lab.audit.difference import Difference
from lab.audit.objects.kernel_objects import AddressAudit, InterfaceAudit, NeighbourAudit, RouteAudit
from lab.audit.objects.routing_objects import FrrLineAudit
from lab.audit.placement import FabricRoles
from tests.unit.diagnose.made_facts import PEERS, TOPOLOGY

LEAF_PORT = PEERS["h1:eth1"].partition(":")[2]
GROUPS = (
    "router bgp 1 / neighbor ISP peer-group",
    "router bgp 1 / neighbor 192.0.2.2 peer-group ISP",
    "router bgp 1 / neighbor FABRIC peer-group",
    "router bgp 1 / neighbor swp1 interface peer-group FABRIC",
)
LEAF = NodeAudit(
    "leaf1", "leaf", addresses=(AddressAudit(LEAF_PORT, "10.0.0.0/31", "global"),),
    frr=tuple(map(FrrLineAudit, GROUPS)),
)  # fmt: skip
HOST = NodeAudit(
    "h1", "host", interfaces=(InterfaceAudit("eth1", "veth", True, True, 9000, "02:1a:00:00:00:01", "", 1000),),
    addresses=(AddressAudit("eth1", "10.0.0.1/31", "global"),),
)  # fmt: skip


def intentions(leaf: NodeAudit = LEAF, host: NodeAudit = HOST) -> Intentions:
    return Intentions({"leaf1": leaf, "h1": host}, FabricRoles(TOPOLOGY))


def new(kind: str, name: str, field: str = "presence", value: str = "present", interface: str = "") -> Difference:
    return Difference("leaf1", kind, f"{kind} {name}", field, value, "absent", "siblings", interface)


@pytest.mark.parametrize(
    ("found", "possible"),
    [
        (new("frr", "router bgp 1 / neighbor 192.0.2.2 remote-as 64999"), True),
        (new("frr", "router bgp 1 / neighbor ISP remote-as 64999"), True),
        (new("frr", "router bgp 1 / address-family ipv4 unicast / neighbor ISP route-map OUT out"), True),
        (new("frr", "router bgp 1 / neighbor ext0 interface remote-as external"), True),
        (new("frr", "router bgp 1 vrf red"), True),
        (new("frr", "ip route 0.0.0.0/0 192.0.2.2"), True),
        (new("frr", "router bgp 1 / address-family ipv4 unicast / network 192.0.2.0/30"), True),
        (new("frr", "router bgp 1 / address-family ipv4 unicast / redistribute static"), True),
        (new("interface", "ext0", interface="ext0"), True),
        (new("bgp session", "192.0.2.2"), True),
        (new("route", "192.0.2.0/24", value="present: blackhole"), True),
        (new("route", "10.0.0.1/32", value="present: blackhole"), False),
        (new("route", "0.0.0.0/0 metric 1", value="present: blackhole"), False),
        (new("route", "192.0.2.0/24", value="present: via 10.0.0.1 dev swp1"), False),
        (new("frr", "router bgp 1 / neighbor swp1 shutdown"), False),
        (new("frr", "router bgp 1 / neighbor FABRIC shutdown"), False),
        (new("frr", "router bgp 1 / neighbor 10.0.0.1 remote-as 64999"), False),
        (new("frr", "router bgp 1 / maximum-paths 1"), False),
        (new("frr", "ip route 10.0.0.1/32 blackhole"), False),
        (new("frr", "router bgp 1 / address-family ipv4 unicast / network 10.0.0.0/24"), False),
        (new("frr", "router bgp 1 / neighbor 192.0.2.2 remote-as 64999", value="absent"), False),
        (new("interface", "swp1", interface="swp1"), False),
        (new("bgp session", "swp1"), False),
        (new("bgp session", "192.0.2.2", "state", "Idle"), True),
        (new("filter", "swp1 ingress 50 flower 1", interface="swp1"), False),
    ],
    ids=lambda each: each.object if isinstance(each, Difference) else "",
)
def test_only_what_leads_out_of_the_fabric_may_be_intended(found: Difference, possible: bool) -> None:
    assert intentions().is_possible(found) is possible


def test_peer_groups_that_name_each_other_end() -> None:
    """FRR has no such groups, but a damaged recording can."""
    lines = ("router bgp 1 / neighbor A peer-group B", "router bgp 1 / neighbor B peer-group A")
    leaf = replace(LEAF, frr=tuple(map(FrrLineAudit, lines)))
    assert intentions(leaf).is_possible(new("frr", "router bgp 1 / neighbor A shutdown"))


ENTRY = NeighbourAudit(LEAF_PORT, "10.0.0.1", "02:1a:00:00:00:01", permanent=True, state="NOARP")


@pytest.mark.parametrize(
    ("entry", "host", "harmless"),
    [
        (ENTRY, HOST, True),
        (replace(ENTRY, mac="02:de:ad:00:00:01"), HOST, False),
        (replace(ENTRY, address="10.0.0.9"), HOST, False),
        (ENTRY, replace(HOST, interfaces=(replace(HOST.interfaces[0], up=False),)), False),
    ],
    ids=["the right MAC", "a wrong MAC", "an address of others", "a port that is shut"],
)
def test_an_entry_with_the_mac_that_arp_would_find_is_harmless(
    entry: NeighbourAudit, host: NodeAudit, harmless: bool
) -> None:
    found = new("neighbour", f"{entry.address} {entry.interface}", interface=entry.interface)
    assert intentions(replace(LEAF, neighbours=(entry,)), host).is_harmless(found) is harmless


@pytest.mark.parametrize(
    ("kind", "master", "of", "harmless"),
    [
        ("veth", "", "", True),
        ("veth", "br0", "", False),
        ("bridge", "", "ext0", False),
        ("macvlan", "", "", False),
        ("ipvlan", "", "", False),
    ],
)
def test_a_new_interface_without_a_cable_is_harmless_if_it_takes_no_packets_from_others(
    kind: str, master: str, of: str, harmless: bool
) -> None:
    port = InterfaceAudit(LEAF_PORT, "veth", True, True, 9000, "02:1a:00:00:00:02", of, 1000)
    added = InterfaceAudit("ext0", kind, True, True, 9000, "02:1a:00:00:00:03", master, 1000)
    found = new("interface", "ext0", interface="ext0")
    assert intentions(replace(LEAF, interfaces=(port, added))).is_harmless(found) is harmless


@pytest.mark.parametrize(
    ("address", "of_host", "harmless"),
    [
        ("100.64.0.0/31", "10.0.0.1/31", True),
        ("100.64.0.0/31", "100.64.0.1/31", False),
        ("10.9.0.0/31", "10.0.0.1/31", False),
        ("fd00::1/64", "10.0.0.1/31", False),
        ("none", "10.0.0.1/31", False),
    ],
    ids=["of a pod", "of a host as well", "of a fabric", "of IPv6", "damaged"],
)
def test_the_address_by_which_a_leaf_reaches_a_pod_is_harmless(address: str, of_host: str, harmless: bool) -> None:
    """A job runs in pods, and packets are lost nearby: the address is not the cause."""
    host = replace(HOST, addresses=(AddressAudit("eth1", of_host, "global"),))
    found = new("address", f"{address} {LEAF_PORT}", interface=LEAF_PORT)
    assert intentions(LEAF, host).is_harmless(found) is harmless


@pytest.mark.parametrize(
    ("prefix", "protocol", "kind", "harmless"),
    [
        ("100.64.0.0/31", "bgp", "unicast", True),
        ("100.64.0.0/31", "static", "unicast", False),
        ("100.64.0.0/31", "bgp", "blackhole", False),
        ("10.9.0.0/31", "bgp", "unicast", False),
    ],
)
def test_a_learned_route_to_pods_is_harmless(prefix: str, protocol: str, kind: str, harmless: bool) -> None:
    route = RouteAudit(prefix, "main", "", kind, protocol, ("via 169.254.0.1 dev swp1",))
    found = new("route", route.identity.removeprefix("route "))
    assert intentions(replace(LEAF, routes=(route,))).is_harmless(found) is harmless


@pytest.mark.parametrize(
    ("line", "harmless"),
    [("network 100.64.0.0/31", True), ("network 10.9.0.0/31", False), ("aggregate-address 100.64.0.0/31", False)],
)
def test_the_line_that_advertises_a_network_of_pods_is_harmless(line: str, harmless: bool) -> None:
    found = new("frr", f"router bgp 1 / address-family ipv4 unicast / {line}")
    assert intentions().is_harmless(found) is harmless
