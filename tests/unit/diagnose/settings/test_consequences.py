"""Settings that follow from others are not listed, and no cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

import pytest

from lab.audit.audited import NodeAudit
from lab.audit.objects.kernel_objects import AddressAudit
from lab.diagnose import route_paths
from lab.diagnose.consequences import takes_sessions_down, without_details
from lab.diagnose.differing import DifferingSetting
from lab.diagnose.route_paths import RoutePaths, owners_of_networks
from tests.unit.diagnose.made_facts import PEERS, TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS: Final = RoutePaths(TOPOLOGY)
"""Without the addresses of nodes: any session can take any route away."""


def differs(
    node: str, kind: str, name: str, field: str = "presence", *, value: str = "present", expected: str = "absent",
    interface: str = "", protocol: str = "",
) -> DifferingSetting:  # fmt: skip
    return DifferingSetting(
        node=node, object=f"{kind} {name}", setting=field, value=value, expected=expected, against="rule", kind=kind,
        interface=interface, protocol=protocol,
    )  # fmt: skip


FEWER: Final = differs(
    "leaf2", "route", "10.0.0.0/31 metric 20", "next hops", value="via 169.254.0.1 dev swp1",
    expected="2 next hops", protocol="bgp",
)  # fmt: skip
LINE: Final = differs(
    "leaf1", "frr", "router bgp 1 / address-family ipv4 unicast / neighbor swp2 route-map NEW out", interface="swp2"
)
AGGREGATE: Final = differs("leaf1", "frr", "router bgp 1 / aggregate-address 10.0.0.0/28 summary-only")
DROPPED: Final = differs("leaf1", "route", "10.0.0.0/28", value="present: type blackhole", protocol="bgp")
ADDRESS: Final = differs("leaf2", "address", "10.0.0.0/31 swp4", "owner", value="leaf1, leaf2", expected="leaf1")
LOST: Final = differs("leaf2", "route", "10.0.0.0/31 metric 20", value="absent", expected="present: protocol bgp")
OWNER: Final = differs("leaf1", "address", "10.0.0.0/31 swp4", value="absent", expected="present: scope global")
IPV6: Final = differs(
    "leaf2", "sysctl", "net.ipv6.conf.swp1.disable_ipv6", "value", value="1", expected="0", interface="swp1"
)
LOCAL: Final = differs("leaf2", "address", "fe80::1/64 swp1", value="absent", expected="present", interface="swp1")
GLOBAL: Final = replace(LOCAL, object="address fdc0::1/64 swp1")
BY_PORT: Final = differs(
    "leaf2", "route", "fdc0::1/128", value="absent", expected="present: next hops via fe80::2 dev swp1, scope global"
)
DOWN: Final = differs("leaf1", "bfd session", "swp1 fe80::1", "status", value="down", expected="up", interface="swp1")
NO_SESSION: Final = differs(
    PEERS["leaf1:swp1"].split(":")[0], "bfd session", PEERS["leaf1:swp1"].split(":")[1], value="absent",
    expected="present", interface=PEERS["leaf1:swp1"].split(":")[1],
)  # fmt: skip


def left(settings: list[DifferingSetting], paths: RoutePaths = PATHS) -> list[DifferingSetting]:
    """The settings that are listed, without their effects."""
    return [replace(each, touches=()) for each in without_details(settings, paths)]


@pytest.mark.parametrize(
    ("root", "detail"),
    [
        (LINE, FEWER),
        (AGGREGATE, DROPPED),
        (ADDRESS, LOST),
        (OWNER, LOST),
        (IPV6, LOCAL),
        (IPV6, GLOBAL),
        (IPV6, BY_PORT),
        (NO_SESSION, DOWN),
    ],
    ids=[
        "fewer paths",
        "an aggregate",
        "an attached network",
        "a network whose address is gone",
        "a link-local address",
        "a global address of IPv6",
        "a route by the port",
        "BFD at one end",
    ],
)
def test_what_a_setting_explains_is_not_listed(root: DifferingSetting, detail: DifferingSetting) -> None:
    assert left([detail, root]) == [root]
    assert without_details([detail], PATHS) == [detail]


def test_a_setting_that_explains_routes_has_an_effect_where_they_are() -> None:
    (found,) = without_details([FEWER, LINE], PATHS)
    assert found.touches == (f"fewer paths or routes at {FEWER.node}",)


@pytest.mark.parametrize(
    ("other", "detail"),
    [
        (differs("leaf1", "frr", "router bgp 1 / neighbor swp2 timers 20 60"), FEWER),
        (differs("leaf1", "frr", "route-map UNUSED deny 10"), FEWER),
        (LINE, differs("leaf2", "route", "10.0.0.9/32", protocol="boot")),
        (LINE, differs("leaf2", "route", "10.0.0.9/32", "mtu", value="1400", expected="9000", protocol="bgp")),
        (
            LINE,
            differs(
                "leaf2",
                "route",
                "10.0.0.9/32",
                "next hops",
                value="blackhole",
                expected="2 next hops",
                protocol="bgp",
            ),
        ),
        (LINE, differs("leaf2", "route", "10.0.0.9/32", value="present: type blackhole", protocol="bgp")),
        (ADDRESS, differs("leaf2", "route", "10.0.0.8/31", value="absent", expected="present: protocol bgp")),
        (IPV6, differs("leaf2", "address", "fe80::1/64 swp2", value="absent", interface="swp2")),
        (NO_SESSION, differs("leaf2", "bfd session", "swp1 fe80::1", "status", value="down", interface="swp1")),
    ],
    ids=[
        "timers",
        "unused",
        "a manual route",
        "an MTU",
        "a blackhole in place of hops",
        "a new blackhole",
        "another network",
        "another port",
        "another session",
    ],
)
def test_other_settings_are_listed(other: DifferingSetting, detail: DifferingSetting) -> None:
    assert without_details([other, detail], PATHS) == [other, detail]


BY_PORT_NAME: Final = differs("leaf1", "bgp session", "swp1", "state", value="Active", interface="swp1")
BY_ADDRESS: Final = differs("leaf1", "bgp session", "10.253.0.9", "state", value="Active")


@pytest.mark.parametrize(
    ("setting", "session", "down"),
    [
        (differs("leaf1", "route", "10.253.0.0/16"), BY_ADDRESS, True),
        (differs("leaf1", "route", "10.0.0.0/31"), BY_ADDRESS, False),
        (differs("leaf1", "route", "0.0.0.0/0"), BY_PORT_NAME, False),
        (differs("leaf1", "route", ""), BY_ADDRESS, False),
        (differs("leaf1", "rule", "inet 100 iif swp1"), BY_PORT_NAME, False),
        (differs("leaf1", "rule", "inet6 100"), BY_PORT_NAME, True),
        (differs("leaf1", "rule", "inet 100 to 10.253.0.9"), BY_ADDRESS, True),
        (differs("leaf1", "rule", "inet 100 to 10.0.0.9"), BY_ADDRESS, False),
        (differs("leaf1", "frr", "router bgp 1 / neighbor swp1 description x"), BY_PORT_NAME, False),
        (LINE, BY_PORT_NAME, True),
        (differs("leaf1", "nft", "inet t c drop"), BY_PORT_NAME, True),
    ],
)
def test_a_route_or_rule_takes_down_the_sessions_whose_packets_it_applies_to(
    setting: DifferingSetting, session: DifferingSetting, down: bool
) -> None:
    assert takes_sessions_down(setting, session) is down


OF_SPINE: Final = RoutePaths(TOPOLOGY, {ip_network("10.253.0.1/32"): {"spine1"}})
TO_SPINE: Final = PEERS["spine1:swp1"].partition(":")[2]
LOOPBACK: Final = differs("leaf1", "route", "10.253.0.1/32", value="absent", expected="present: protocol bgp")


@pytest.mark.parametrize(
    ("session", "passes"),
    [
        (differs("leaf1", "frr", f"router bgp 1 / neighbor {TO_SPINE} shutdown", interface=TO_SPINE), True),
        (differs("spine1", "frr", "router bgp 1 / neighbor swp1 shutdown", interface="swp1"), True),
        (differs("spine1", "frr", "router bgp 1 / maximum-paths 1"), True),
        (differs("leaf2", "frr", "router bgp 1 / neighbor swp1 shutdown", interface="swp1"), False),
        (differs("leaf2", "frr", "router bgp 1 / maximum-paths 1"), False),
        (differs("spine1", "frr", "router bgp 1 / neighbor swp2 shutdown", interface="swp2"), False),
        (differs("leaf2", "bgp session", "10.253.0.9", "state", value="Active"), True),
    ],
    ids=["its session", "the other end", "its owner", "another switch's", "another switch", "another session",
         "over several links"],
)  # fmt: skip
def test_a_route_only_follows_from_the_sessions_by_which_it_is_advertised(
    session: DifferingSetting, passes: bool
) -> None:
    assert left([session, LOOPBACK], OF_SPINE) == ([session] if passes else [session, LOOPBACK])
    in_vrf = replace(LOOPBACK, object="route 10.253.0.1/32 table 100")
    assert left([session, in_vrf], OF_SPINE) == [session]


def test_prefixes_and_addresses_of_sessions_are_read_once_however_many_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fabric of 80 switches whose daemon dies has a million pairs of a route and a session."""
    read: Counter[str] = Counter()

    def counted(parse: Callable[..., object]) -> Callable[..., object]:
        def parsed(text: str, **named: bool) -> object:
            read[text] += 1
            return parse(text, **named)

        return parsed

    for name in ("ip_network", "ip_address"):
        monkeypatch.setattr(route_paths, name, counted(getattr(route_paths, name)))
    prefixes = [f"10.9.0.{number}/32" for number in range(50)]
    routes = [replace(LOOPBACK, object=f"route {prefix}") for prefix in prefixes]
    others = [differs("leaf2", "frr", f"router bgp 1 / maximum-paths {number}") for number in range(50)]
    paths = RoutePaths(TOPOLOGY, {ip_network(prefix): {"spine1"} for prefix in prefixes})
    assert without_details([*others, *routes], paths) == [*others, *routes]
    assert {read[prefix] for prefix in prefixes} == {1}
    assert read["bgp"] <= len(others)


def test_networks_have_the_switches_with_an_address_there_as_owners() -> None:
    nodes = [
        NodeAudit("leaf1", "leaf", addresses=(AddressAudit("swp3", "10.0.0.0/31", "global"),
                                              AddressAudit("swp3", "fe80::1/64", "link"))),
        NodeAudit("h1", "host", addresses=(AddressAudit("eth1", "10.0.0.1/31", "global"),)),
    ]  # fmt: skip
    assert owners_of_networks(nodes) == {ip_network("10.0.0.0/31"): {"leaf1"}}


@pytest.mark.parametrize(
    ("sysctl", "line"),
    [("net.ipv4.ip_forward", "no ip forwarding"), ("net.ipv6.conf.all.forwarding", "no ipv6 forwarding"),
     ("net.ipv4.ip_forward", "ip forwarding")],
)  # fmt: skip
def test_zebra_shows_that_the_kernel_does_not_forward(sysctl: str, line: str) -> None:
    """Restoring the line sets the sysctl, too: they are one setting."""
    off, shown = differs("leaf1", "sysctl", sysctl, "value", value="0", expected="1"), differs("leaf1", "frr", line)
    assert without_details([off, shown], PATHS) == [off]
    elsewhere = replace(shown, node="leaf2")
    assert without_details([off, elsewhere], PATHS) == [off, elsewhere]


def test_neighbours_of_a_port_follow_from_its_bridge_at_either_end_of_the_link() -> None:
    """The bridge has an entry for its member, and the other end learns the MAC of another port."""
    peer, port = PEERS["leaf1:swp1"].split(":")
    joined = differs("leaf1", "interface", "swp1", "master", value="br0", expected="none", interface="swp1")
    learned = differs(peer, "neighbour", f"169.254.0.1 {port}", "mac", value="a", expected="b", interface=port)
    local = differs("leaf1", "fdb", "02:1a:00:05:00:03 swp1", interface="swp1")
    assert without_details([joined, learned, local], PATHS) == [joined]
    elsewhere = [replace(learned, node="leaf2"), replace(local, interface="swp3")]
    assert without_details([joined, *elsewhere], PATHS) == [joined, *elsewhere]


@pytest.mark.parametrize("line", ["router isis fabric / net", "router ospf / ospf router-id"])
def test_routes_of_any_switch_follow_from_a_name_that_another_switch_has(line: str) -> None:
    """leaf4 took the name of leaf3: routes to leaf3 are wrong, whose shortest paths do not have leaf4."""
    name = replace(
        differs("leaf2", "frr", line, "value", value="49.1.a.b.c.00", expected="another one than leaf1"), shared=True
    )
    lost = differs("spine1", "route", "10.9.0.0/31 metric 20", value="absent", expected="present: protocol isis")
    paths = RoutePaths(TOPOLOGY, {ip_network("10.9.0.0/31"): ["leaf1"]})
    assert [each.object for each in without_details([name, lost], paths)] == [name.object]
    other = replace(name, object="frr router isis fabric / metric-style narrow")
    assert len(without_details([other, lost], paths)) == 2


@pytest.mark.parametrize("line", [
    "router bgp 7 / bgp router-id", "router bgp 7 vrf red / bgp router-id", "router isis fabric / net",
    "router ospf / ospf router-id", "router ospf6 / ospf6 router-id", "ip router-id",
])  # fmt: skip
def test_a_name_of_a_switch_that_no_other_has_explains_no_route_and_no_session(line: str) -> None:
    name = differs("leaf2", "frr", line, "value", value="49.0001.9.9.9.00", expected="49.0001.2.2.2.00")
    lost = differs("leaf2", "route", "10.9.0.0/31 metric 20", value="absent", expected="present: protocol isis")
    session = differs("leaf2", "bgp session", "swp1", "state", value="Active", expected="Established")
    paths = RoutePaths(TOPOLOGY, {ip_network("10.9.0.0/31"): ["leaf1"]})
    filtered = differs("leaf2", "frr", "router bgp 7 / neighbor swp1 route-map NEW in", interface="swp1")
    found = without_details([name, filtered, lost], paths)
    assert [(each.object, bool(each.touches)) for each in found] == [(name.object, False), (filtered.object, True)]
    assert without_details([name, lost], paths) == [name, lost]
    assert not takes_sessions_down(name, session)
    shared = replace(name, shared=True)
    assert takes_sessions_down(shared, session)
    assert [each.touches for each in without_details([shared, lost], paths)] == [("fewer paths or routes at leaf2",)]
    if line.endswith(" / net"):
        moved = replace(name, value="49.0002.2.2.2.00")
        assert len(without_details([moved, lost], paths)) == 1, "switches of other areas are no neighbours"


def test_a_switch_of_is_is_without_its_net_has_no_routes() -> None:
    """The line that is missing is no other name of the switch."""
    net = differs(
        "leaf2", "frr", "router isis fabric / net 49.0001.0102.5300.0002.00", value="absent", expected="present"
    )
    lost = differs("leaf2", "route", "10.9.0.0/31 metric 20", value="absent", expected="present: protocol isis")
    paths = RoutePaths(TOPOLOGY, {ip_network("10.9.0.0/31"): ["leaf1"]})
    assert [each.touches for each in without_details([net, lost], paths)] == [("fewer paths or routes at leaf2",)]
    second = replace(net, value="present", expected="absent")
    assert without_details([second, lost], paths) == [second, lost], "a further NET takes no route"


def test_routes_that_are_missing_follow_from_the_mtu_of_a_link() -> None:
    """OSPF and IS-IS exchange no routes over it. Routes over other links do not follow."""
    mtu = differs("leaf1", "interface", "swp1", "mtu", value="8000", expected="9000", interface="swp1")
    paths = RoutePaths(TOPOLOGY, {ip_network("10.9.0.0/31"): ["leaf2"], ip_network("10.8.0.0/31"): ["spine2"]})
    lost = differs(
        "leaf1", "route", "10.9.0.0/31 metric 20", "next hops", value="via a dev swp2", expected="2 next hops"
    )
    assert [each.object for each in without_details([mtu, lost], paths)] == ["interface swp1"]
    other = replace(lost, object="route 10.8.0.0/31 metric 20")
    assert len(without_details([mtu, other], paths)) == 2
    assert len(without_details([mtu, replace(lost, protocol="bgp")], paths)) == 2, "BGP uses the link anyway"
    gone = replace(lost, setting="presence", value="absent", expected="present: protocol bgp")
    assert len(without_details([mtu, gone], paths)) == 2


@pytest.mark.parametrize("origin", [
    differs("leaf2", "frr", "router bgp 7 / address-family ipv4 unicast / network 10.9.0.1/32"),
    differs("leaf2", "route", "10.9.0.1/32", value="present: type blackhole", protocol="boot"),
], ids=["a network statement", "a manual route that is redistributed"])  # fmt: skip
def test_a_new_learned_route_follows_from_what_originates_it(origin: DifferingSetting) -> None:
    """Wherever its owner is: another switch advertises a part of its network."""
    paths = RoutePaths(TOPOLOGY, {ip_network("10.9.0.0/31"): ["leaf1"]})
    learned = differs("spine1", "route", "10.9.0.1/32 metric 20", value="present: type unicast", protocol="bgp")
    assert without_details([origin, learned], paths) == [origin]
    other = replace(learned, object="route 10.9.0.0/32 metric 20")
    assert without_details([origin, other], paths) == [origin, other]


def test_routes_by_a_port_that_does_not_exist_follow_from_it() -> None:
    """Those of its node, and those that others had learned to its network, which has no owner any more."""
    gone = differs("leaf1", "interface", "swp3", value="absent", expected="present", interface="swp3")
    expected = "present: type unicast, protocol static, next hops via 10.0.0.1 dev swp3"
    default = differs("leaf1", "route", "0.0.0.0/0", value="absent", expected=expected)
    learned = differs("leaf2", "route", "10.9.0.0/31 metric 20", value="absent", expected="present: protocol bgp")
    assert [each.object for each in without_details([gone, default, learned], PATHS)] == [gone.object]
    other = replace(default, expected=default.expected.replace("swp3", "swp4"))
    assert other in without_details([gone, other], PATHS)


def test_routes_that_contradict_no_others_are_not_fewer() -> None:
    """Of an aggregate, for example: the plan has the routes to its parts."""
    assert without_details([FEWER, LINE], PATHS, {("leaf2", FEWER.object)})[0].touches == (
        "fewer paths or routes at leaf2",
    )
    assert without_details([FEWER, LINE], PATHS, set())[0].touches == ("other routes than planned at leaf2",)
