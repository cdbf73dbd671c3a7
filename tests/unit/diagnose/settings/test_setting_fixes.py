"""The commands that restore settings: for the node as it is, and nothing that does harm."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.audit.objects.kernel_objects import RouteAudit
from lab.diagnose.causes.route_fixes import words_as_it_is
from lab.diagnose.causes.setting_fixes import remedies, remedy
from lab.diagnose.causes.setting_kinds import kind_of
from tests.unit.diagnose.settings.made_settings import FILTER, FORWARDING, NEIGHBOUR, ROUTE, setting

if TYPE_CHECKING:
    from pathlib import Path

    from lab.diagnose.differing import DifferingSetting


@pytest.mark.parametrize(
    ("differs", "command"),
    [
        (ROUTE, "rocelab exec leaf1 -- ip route del 10.0.0.8/32"),
        (replace(ROUTE, object="route fd00::1/128 table 100"), "ip -6 route del fd00::1/128 table 100"),
        (setting("h1", "route 0.0.0.0/0", value="absent", expected="present: type unicast, protocol static, "
         "next hops via 10.0.0.0 dev eth1, scope global"),
         "ip route replace 0.0.0.0/0 proto static via 10.0.0.0 dev eth1"),
        (setting("h1", "address 10.0.0.1/31 eth1", value="absent", expected="present: scope global"),
         "ip address add 10.0.0.1/31 dev eth1"),
        (setting("h1", "rule inet 575 to 10.0.0.9"), "ip rule del pref 575 to 10.0.0.9"),
        (setting("leaf1", "rule inet6 1000 l3mdev"), "ip -6 rule del pref 1000 l3mdev"),
        (setting("leaf1", "rule inet 1000 l3mdev", value="absent", expected="present"),
         "rocelab exec leaf1 -- ip rule add pref 1000 l3mdev"),
        (setting("leaf1", "rule inet 32766", value="absent", expected="present: action lookup main"),
         "ip rule add pref 32766 lookup main"),
        (FORWARDING, "sysctl -w net.ipv4.ip_forward=1"),
        (setting("leaf1", "frr router bgp 65001 / address-family ipv4 unicast / neighbor swp1 prefix-list P in"),
         ("rocelab vtysh leaf1 -c 'configure terminal' -c 'router bgp 65001' -c 'address-family ipv4 unicast' "
          "-c 'no neighbor swp1 prefix-list P in'")),
        (setting("leaf1", "frr router ospf / maximum-paths 1"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'router ospf' -c 'no maximum-paths'"),
        (setting("leaf1", "frr bfd / profile fabric / detect-multiplier 50"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c bfd -c 'profile fabric' -c 'detect-multiplier 3'"),
        (setting("leaf1", "frr router bgp 65001 / no bgp default ipv4-unicast"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'router bgp 65001' -c 'bgp default ipv4-unicast'"),
        (setting("leaf1", "frr router bgp 65001 vrf red / maximum-paths", "value", value="1", expected="64"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'router bgp 65001 vrf red' -c 'maximum-paths 64'"),
        (setting("h3", "route 10.0.0.5/32 table local", value="absent", expected="present: type local, "
                 "protocol kernel, next hops dev eth1"),
         "ip route replace local 10.0.0.5/32 table local proto kernel dev eth1"),
        (setting("h3", "route 10.0.0.4/31", value="absent", expected="present: type unicast, protocol kernel, "
                 "next hops dev eth1"),
         "ip route replace 10.0.0.4/31 proto kernel dev eth1"),
        (setting("h1", "route 0.0.0.0/0 table 101", value="absent", expected="present: type unicast, protocol boot, "
         "next hops via 10.0.0.0 dev eth1, via 10.0.0.2 dev eth2 weight 2, scope global"),
         ("ip route replace 0.0.0.0/0 table 101 proto boot nexthop via 10.0.0.0 dev eth1 "
          "nexthop via 10.0.0.2 dev eth2 weight 2")),
        (setting("h1", "sysctl net.ipv4.conf.eth1.10.rp_filter", "value", "eth1.10", value="1", expected="0"),
         "sysctl -w net/ipv4/conf/eth1.10/rp_filter=0"),
        (setting("leaf1", "fdb 02:00:00:00:00:01 vxlan10 10.0.0.3", interface="vxlan10"),
         "bridge fdb del 02:00:00:00:00:01 dev vxlan10 dst 10.0.0.3 self"),
        (setting("leaf1", "fdb 02:00:00:00:00:01 swp3 10", interface="swp3"),
         "bridge fdb del 02:00:00:00:00:01 dev swp3 master vlan 10"),
        (FILTER, "tc filter del dev swp3 ingress pref 50 handle 1 flower"),
        (setting("leaf1", "filter swp3 ingress 50 u32 800::800", interface="swp3"),
         "tc filter del dev swp3 ingress pref 50 handle 800::800 u32"),
        (setting("h5", "filter out 0 xfrm 9"), "ip xfrm policy delete index 9 dir out"),
        (NEIGHBOUR, "ip neigh del 10.0.0.0 dev eth1"),
        (setting("spine1", "neighbour 169.254.0.1 swp1", value="absent", expected="present: mac 02:1a:00:05:00:01"),
         "ip neigh replace 169.254.0.1 lladdr 02:1a:00:05:00:01 dev swp1 nud permanent"),
        (setting("h1", "neighbour proxy 10.0.0.0 eth1", interface="eth1"), "ip neigh del proxy 10.0.0.0 dev eth1"),
        (setting("leaf2", "route 10.0.0.8/31 metric 20 tos AF31"), "ip route del 10.0.0.8/31 metric 20 tos AF31"),
        (setting("leaf1", "interface swp1", "NOMULTICAST", "swp1", value="yes", expected="absent"),
         "ip link set swp1 multicast on"),
        (setting("leaf1", "interface swp1", "queue length", "swp1", value="1", expected="1000"),
         "ip link set swp1 txqueuelen 1000"),
        (setting("leaf1", "frr interface swp1 / ip ospf area", "value", "swp1", value="7", expected="0.0.0.0"),  # noqa: S104
         ("rocelab vtysh leaf1 -c 'configure terminal' -c 'interface swp1' -c 'no ip ospf area' "
          "-c 'ip ospf area 0.0.0.0'")),
        (setting("h1", "address 10.0.0.9/32 lo", "owner", "lo", value="h1, h2", expected="one node"),
         "ip address del 10.0.0.9/32 dev lo"),
        (setting("h6", "address 10.0.0.1/32 eth1", "owner", "eth1", value="h1, h6", expected="h1"),
         "ip address del 10.0.0.1/32 dev eth1"),
        (setting("h1", "route 10.0.0.0/8", "gateway", "eth1", value="10.99.0.9", expected="10.0.0.0 of leaf1"),
         "ip route replace 10.0.0.0/8 via 10.0.0.0 dev eth1"),
        (setting("leaf1", "route 10.0.0.8/31 metric 20", "next hops", value="via 10.99.0.9 dev swp1",
         expected="via 10.1.0.0 dev swp1, via fe80::1 dev swp2 weight 2"),
         ("ip route replace 10.0.0.8/31 metric 20 nexthop via 10.1.0.0 dev swp1 "
          "nexthop via inet6 fe80::1 dev swp2 weight 2")),
        (setting("leaf1", "route 10.0.0.8/31", "next hops", value="none", expected="via fe80::1 dev swp1"),
         "ip route replace 10.0.0.8/31 via inet6 fe80::1 dev swp1"),
        (replace(setting("h1", "route 0.0.0.0/0 metric 100", "mtu", value="1400", expected="9000"),
                 route="proto static src 10.0.0.1 via 10.0.0.0 dev eth1"),
         "ip route replace 0.0.0.0/0 metric 100 proto static src 10.0.0.1 via 10.0.0.0 dev eth1"),
        (replace(setting("h1", "route 0.0.0.0/0", "prefsrc", value="10.77.0.1", expected="10.0.0.1"),
                 route="proto static src 10.77.0.1 via 10.0.0.0 dev eth1"),
         "ip route replace 0.0.0.0/0 proto static via 10.0.0.0 dev eth1"),
        (replace(setting("leaf1", "route 10.0.0.8/31 metric 20", "weights", value="1 : 9", expected="1 : 1"),
                 route="proto bgp nexthop via 169.254.0.1 dev swp1 weight 9 onlink "
                       "nexthop via 169.254.0.1 dev swp2 onlink"),
         ("ip route replace 10.0.0.8/31 metric 20 proto bgp nexthop via 169.254.0.1 dev swp1 onlink "
          "nexthop via 169.254.0.1 dev swp2 onlink")),
        (replace(setting("h1", "route 0.0.0.0/0", "hop limit", value="1", expected="none"),
                 route="proto static via 10.0.0.0 dev eth1"),
         "ip route replace 0.0.0.0/0 proto static via 10.0.0.0 dev eth1"),
        (setting("h1", "interface eth1", "gso_max_size", "eth1", value="4096", expected="absent"),
         "ip link set eth1 gso_max_size 65536"),
        (setting("h1", "interface eth1", "ipv6 mtu", "eth1", value="1500", expected="absent"),
         "rocelab exec h1 -- sh -c 'sysctl -w net/ipv6/conf/eth1/mtu=$(cat /sys/class/net/eth1/mtu)'"),
        (setting("h1", "interface eth1", "ipv6 mtu", "eth1", value="1500", expected="1400"),
         "rocelab exec h1 -- sysctl -w net/ipv6/conf/eth1/mtu=1400"),
        (setting("h1", "interface eth1", "mtu", "eth1", value="1500", expected="9000"), "ip link set eth1 mtu 9000"),
        (setting("h1", "interface eth1", "NOARP", "eth1", value="yes", expected="absent"), "ip link set eth1 arp on"),
        (setting("leaf1", "vlan 10 swp3", interface="swp3", value="absent", expected="present: flags PVID, Egress "
         "Untagged"), "bridge vlan add vid 10 dev swp3 pvid untagged"),
        (setting("h1", "address 10.9.0.1/16 eth1", "prefix length", "eth1", value="16", expected="24"),
         ("rocelab exec h1 -- sh -c 'r=$(ip route show default dev eth1) && ip address del 10.9.0.1/16 dev eth1 && "
         """ip address add 10.9.0.1/24 dev eth1 && [ -z "$r" ] || ip route replace $r dev eth1'""")),
        (setting("h1", "address fd00::1/48 eth1", "prefix length", "eth1", value="48", expected="64"),
         "sh -c 'ip address del fd00::1/48 dev eth1 && ip address add fd00::1/64 dev eth1'"),
        (setting("leaf1", "interface vni7", "ttl", "vni7", value="1", expected="0"),
         "rocelab exec leaf1 -- ip link set vni7 type vxlan ttl auto"),
        (setting("leaf1", "interface vni7", "tos", "vni7", value="0", expected="0x1"),
         "rocelab exec leaf1 -- ip link set vni7 type vxlan tos inherit"),
        (setting("leaf1", "interface vni7", "learning", "vni7", value="yes", expected="no"),
         "rocelab exec leaf1 -- ip link set vni7 type vxlan nolearning"),
        (setting("leaf1", "interface bridge", "vlan_filtering", "bridge", value="0", expected="1"),
         "rocelab exec leaf1 -- ip link set bridge type bridge vlan_filtering 1"),
        (setting("leaf1", "interface bridge", "priority", "bridge", value="0", expected="32768"),
         "rocelab exec leaf1 -- ip link set bridge type bridge priority 32768"),
        (setting("leaf1", "interface bridge", "ageing_time", "bridge", value="0", expected="30000"),
         "rocelab exec leaf1 -- ip link set bridge type bridge ageing_time 30000"),
        (setting("leaf1", "interface bridge", "ageing_time", "bridge", value="0", expected="absent"),
         "rocelab exec leaf1 -- ip link set bridge type bridge ageing_time 30000"),
        (setting("leaf1", "interface bridge", "stp_state", "bridge", value="0", expected="1"),
         "rocelab exec leaf1 -- ip link set bridge type bridge stp_state 1"),
        (setting("leaf1", "port swp3", "dscp_to_priority.26", "swp3", value="0", expected="3"),
         "rocelab qos set leaf1:swp3 map.dscp.26=3"),
        (setting("leaf1", "port swp3", "pfc.priorities", "swp3", value="16", expected="8"),
         "rocelab qos set leaf1:swp3 pfc.priorities=3"),
        (setting("leaf1", "port swp3", "queues.3.ecn.kmin", "swp3", value="1", expected="40000"),
         "rocelab qos set leaf1:swp3 ecn.3.kmin=40000"),
    ],
)  # fmt: skip
def test_the_fix_is_a_command_for_the_node_as_it_is(differs: DifferingSetting, command: str) -> None:
    assert remedy(differs).endswith(command)
    assert remedy(differs).startswith("rocelab ")


ELSEWHERE = setting("h1", "route 10.0.0.0/8", "gateway", "eth1", value="10.9.0.9", expected="10.0.0.0 of leaf1")
"""A static route of a host with another gateway than the leaf at its port."""


def test_a_route_is_restored_by_one_command_with_its_protocol() -> None:
    """The plan has the protocol. A route without it would be another one than those of siblings."""
    protocol = replace(ELSEWHERE, setting="protocol", value="boot", expected="static", against="plan", interface="")
    hops = replace(
        protocol, setting="next hops", value="via 10.9.0.9 dev eth1", expected="via 10.0.0.0 dev eth1"
    )  # fmt: skip
    command = "rocelab exec h1 -- ip route replace 10.0.0.0/8 proto static via 10.0.0.0 dev eth1"
    assert remedies([ELSEWHERE, protocol]) == [command]
    assert remedies([protocol, hops, ELSEWHERE]) == [command]


def test_a_route_that_should_not_exist_is_deleted_and_not_given_another_gateway() -> None:
    extra = replace(ELSEWHERE, setting="presence", value="present: via 10.9.0.9 dev eth1", expected="absent")
    assert remedies([ELSEWHERE, extra]) == ["rocelab exec h1 -- ip route del 10.0.0.0/8"]


def test_a_network_that_is_not_advertised_has_a_place_to_look_at() -> None:
    silent = setting("leaf1", "route 10.0.0.0/31", "advertised", value="no", expected="yes")
    assert remedy(silent).startswith("advertise 10.0.0.0/31")
    kind = kind_of(silent)
    assert kind is not None
    assert kind.cause == "session-differs"
    known = replace(silent, expected="yes, by router ospf / network 10.0.0.0/31 area 0.0.0.0")
    assert remedies([known]) == [
        "rocelab vtysh leaf1 -c 'configure terminal' -c 'router ospf' -c 'network 10.0.0.0/31 area 0.0.0.0'"
    ]


def test_an_interface_is_taken_out_of_a_bridge_whose_options_it_should_not_have() -> None:
    bridged = setting("leaf1", "interface swp3", "master", "swp3", value="br9", expected="none")
    option = replace(bridged, setting="port learning", value="yes", expected="absent")
    assert remedies([option, bridged]) == ["rocelab exec leaf1 -- ip link set swp3 nomaster"]


def test_of_learned_routes_that_are_missing_one_shows_the_reason() -> None:
    lost = [
        setting("leaf1", f"route {prefix}", value="absent", expected="present")
        for prefix in ("10.0.0.8/31", "10.0.0.6/31")
    ]
    (fix,) = remedies(lost)
    assert fix.endswith(": rocelab vtysh leaf1 -c 'show ip route 10.0.0.8/31'")


@pytest.mark.parametrize(
    ("differs", "fix"),
    [
        (setting("h1", "rule inet 102 from <address>", value="absent", expected="present: action lookup 102"),
         "give rule inet 102 from <address> of h1 its value of before: presence present: action lookup 102"),
        (setting("h1", "route 10.9.0.0/16", value="absent", expected="present: type blackhole, protocol static"),
         "give route 10.9.0.0/16 of h1 its value of before: presence present: type blackhole, protocol static"),
        (setting("leaf1", "frr router bgp 65001", value="absent", expected="present"),
         ("restore the section router bgp 65001 with all its lines: "
          "rocelab vtysh leaf1 -c 'show running-config'")),
        (setting("leaf1", "frr router bgp 65001 / neighbor swp1 password", "value", value="<secret:01234567>",
         expected="<secret:89abcdef>"),
         "enter the secret of router bgp 65001 / neighbor swp1 password again: rocelab vtysh leaf1"),
        (setting("leaf1", "frr router bgp 65001 / neighbor swp1 password <secret:01234567>"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'router bgp 65001' -c 'no neighbor swp1 password'"),
        (setting("leaf1", "frr interface swp1 / ip ospf message-digest-key 3 md5 <secret:01234567>"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'interface swp1' -c 'no ip ospf message-digest-key 3'"),
        (setting("leaf1", "frr router isis fabric / domain-password clear <secret:01234567>"),
         "rocelab vtysh leaf1 -c 'configure terminal' -c 'router isis fabric' -c 'no domain-password'"),
        (setting("leaf1", "frr key chain K / key 1 / key-string <secret:01234567>"),
         "remove key chain K / key 1 / key-string <secret:01234567>: rocelab vtysh leaf1"),
        (setting("leaf1", "bgp session 10.0.0.1 red", "state", value="Idle", expected="Established"),
         ("see the reason of the last reset, and correct the session here or at the other end: "
          "rocelab vtysh leaf1 -c 'show bgp vrf red neighbors 10.0.0.1'")),
        (setting("leaf1", "route 10.0.0.8/31 table red", value="absent", expected="present"),
         ("look for a filter of routes, or for who should advertise it: "
          "rocelab vtysh leaf1 -c 'show ip route vrf all 10.0.0.8/31'")),
    ],
)  # fmt: skip
def test_a_setting_whose_value_is_not_known_in_full_has_no_command_that_restores_it(
    differs: DifferingSetting, fix: str
) -> None:
    assert remedy(differs) == fix


def test_a_line_of_frr_is_removed_before_the_one_that_it_replaced_is_added() -> None:
    """``no neighbor swp1 route-map NAME in`` removes the route map of a session, whatever its name."""
    context = "frr router bgp 65001 / address-family ipv4 unicast / neighbor swp1 route-map"
    lost = setting("leaf1", f"{context} GOOD in", value="absent", expected="present")
    first, second = remedies([lost, setting("leaf1", f"{context} OTHER in")])
    assert first.endswith("-c 'no neighbor swp1 route-map OTHER in'")
    assert second.endswith("-c 'neighbor swp1 route-map GOOD in'")


def test_a_neighbour_or_peer_group_is_created_before_its_other_lines() -> None:
    """FRR rejects a line of one that does not exist."""
    bgp = "frr router bgp 65001"
    lines = ["neighbor FABRIC bfd", "neighbor FABRIC peer-group", "neighbor swp1 interface peer-group FABRIC"]
    found = remedies(setting("leaf1", f"{bgp} / {line}", value="absent", expected="present") for line in lines)
    assert [each.rpartition("-c ")[2].strip("'") for each in found] == [*lines[1:], lines[0]]


@pytest.mark.parametrize("hops", ["via 10.0.0.0 dev eth1, via", "via 10.0.0.0, ", "dev eth1, "])
def test_next_hops_of_a_damaged_recording_are_no_traceback(hops: str) -> None:
    damaged = setting("h1", "route 10.0.0.0/8", "next hops", value="via 10.9.9.9 dev eth1", expected=hops)
    assert remedy(damaged).startswith("rocelab exec h1 -- ip route replace 10.0.0.0/8 nexthop ")


def test_a_manual_route_keeps_its_protocol() -> None:
    """ip(8) creates routes of protocol boot unless a command names another one."""
    hops = setting("h1", "route 10.0.0.0/8", "next hops", value="via 10.0.0.0 dev eth1", expected="via 10.0.0.0 dev "
                   "eth1, via 10.0.0.2 dev eth2")  # fmt: skip
    assert remedy(replace(hops, protocol="static")) == (
        "rocelab exec h1 -- ip route replace 10.0.0.0/8 proto static nexthop via 10.0.0.0 dev eth1 "
        "nexthop via 10.0.0.2 dev eth2"
    )
    assert remedy(replace(hops, protocol="ospf")).startswith("look for a filter of routes")


def test_a_route_is_not_deleted_if_its_right_gateway_is_not_known() -> None:
    (fix,) = remedies([replace(ELSEWHERE, expected="an address of leaf1")])
    assert fix.startswith("give route 10.0.0.0/8 of h1 its value of before")


def test_a_route_keeps_its_other_metrics() -> None:
    metrics = (
        '[{"mtu": 1400, "advmss": 1000, "hoplimit": 3, "ecn": null, "rto_min": 300, "congestion": "reno", "x": 1}]'
    )
    options = {"metrics": metrics, "prefsrc": "10.77.0.1"}
    route = RouteAudit("10.0.0.0/8", "main", "", "unicast", "static", ("via 10.0.0.0 dev eth1",), options)
    source = setting("h1", "route 10.0.0.0/8", "prefsrc", value="10.77.0.1", expected="10.0.0.1")
    source = replace(source, route=words_as_it_is(route))
    start, end = "rocelab exec h1 -- ip route replace 10.0.0.0/8", "via 10.0.0.0 dev eth1"
    others = "advmss 1000 features ecn rto_min 300ms congctl reno"
    with_limit = others.replace("1000", "1000 hoplimit 3")
    assert remedies([source]) == [f"{start} proto static mtu 1400 {with_limit} {end}"]
    mtu = replace(source, setting="mtu", value="1400", expected="9000")
    limit = replace(source, setting="hop limit", value="3", expected="64")
    assert remedies([source, mtu, limit]) == [f"{start} hoplimit 64 proto static {others} {end}"]
    assert not words_as_it_is(replace(route, options={"encap": "mpls"}))


def test_what_a_node_may_have_by_intent_is_not_removed() -> None:
    line = setting("leaf2", "frr router bgp 65001 / neighbor 192.0.2.2 remote-as 64999")
    assert "no neighbor" in remedy(line)
    intended = remedy(replace(line, intended=True))
    assert intended.startswith("find out whether leaf2 should have router bgp 65001 / neighbor 192.0.2.2")
    assert "no neighbor" not in intended
    new = setting("leaf2", "interface ext0", interface="ext0")
    assert remedy(new) == "rocelab exec leaf2 -- ip link del ext0"
    assert remedy(replace(new, intended=True)).startswith("find out whether leaf2 should have interface ext0")
    group = replace(setting("leaf2", "frr router bgp 65001 / neighbor ISP peer-group"), intended=True)
    assert remedies([replace(line, intended=True), group]) == [intended]


@pytest.mark.parametrize(
    "differs",
    [
        setting("h1", "interface $(touch${IFS}made)", "ipv6 mtu", value="1500", expected="absent"),
        setting("h1", "interface ;touch${IFS}made", "ipv6 mtu", value="1500", expected="absent"),
        setting("h1", "qdisc $(touch${IFS}made) root", "rate", value="1", expected="2"),
    ],
)
def test_no_name_of_a_recording_is_a_command(differs: DifferingSetting, tmp_path: Path) -> None:
    """The fix and the command in it are typed into a shell, with echo in place of rocelab and of its programs."""
    (fix,) = remedies([differs])
    command = fix[fix.index("rocelab ") :]
    inner = shlex.split(command)
    script = inner[inner.index("-c") + 1] if "-c" in inner else ""
    for each in (command.replace("rocelab", "echo", 1), script.replace("sysctl", "echo", 1)):
        subprocess.run(["/bin/sh", "-c", each], cwd=tmp_path, check=False, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_ends_of_a_link_that_differ_from_each_other_are_a_choice() -> None:
    """Both commands would exchange the values."""
    ends = [
        setting("leaf1", "interface swp1", "mtu", "swp1", value="1500", expected="9000", against="spine1:swp3"),
        setting("spine1", "interface swp3", "mtu", "swp3", value="9000", expected="1500", against="leaf1:swp1"),
    ]
    assert remedies(ends) == [
        (
            "one of the two: rocelab exec leaf1 -- ip link set swp1 mtu 9000, "
            "or rocelab exec spine1 -- ip link set swp3 mtu 1500"
        )
    ]
    assert remedies(ends[:1]) == ["rocelab exec leaf1 -- ip link set swp1 mtu 9000"]


def test_a_replaced_queue_is_restored_as_a_whole() -> None:
    """Each of its options would be a command of its own, and none works alone."""
    wrong = [
        setting("h4", "qdisc eth1 root", field, "eth1", value=value, expected=expected)
        for field, value, expected in (
            ("rate", "absent", "125000000"), ("limit", "0", "absent"), ("kind", "pfifo", "tbf")
        )
    ]  # fmt: skip
    assert remedies(wrong) == [
        (
            "give qdisc eth1 root of h4 its values of before, kind tbf, rate 125000000: "
            "rocelab exec h4 -- tc qdisc show dev eth1"
        )
    ]


def test_a_value_that_several_nodes_have_is_no_command() -> None:
    """Either of them may keep it."""
    line = setting(
        "leaf1", "frr router isis fabric / net", "value", value="49.0001", expected="another one than leaf2"
    )
    assert remedy(line) == (
        "give leaf1 or leaf2 a value of its own, router isis fabric / net: "
        "rocelab vtysh leaf1 -c 'show running-config'"
    )
    mac = setting("h1", "interface eth1", "mac", "eth1", value="02:1a", expected="another one than h3")
    assert remedy(mac).startswith("give h1 or h3 a value of its own, interface eth1 mac: rocelab exec h1 -- ip")


def test_the_fix_of_a_legacy_rule_shows_its_number() -> None:
    rule = setting("leaf1", "nft iptables-legacy filter FORWARD to 10.0.0.9/32 DROP")
    shown = "rocelab exec leaf1 -- iptables-legacy -t filter -L FORWARD -n -v --line-numbers"
    assert remedy(rule) == f"delete the rule by its number: {shown}"
    policy = setting("leaf1", "nft iptables-legacy filter FORWARD hook forward policy drop")
    assert remedy(policy) == "rocelab exec leaf1 -- iptables-legacy -t filter -P FORWARD ACCEPT"
    lost = replace(policy, value="absent", expected="present")
    assert "ACCEPT" not in remedy(lost)


def test_a_rule_of_nftables_is_deleted_by_its_handle() -> None:
    rule = setting("leaf1", 'nft inet fw input [{"drop": null}]')
    assert remedy(replace(rule, handle=7)) == "rocelab exec leaf1 -- nft delete rule inet fw input handle 7"
    assert remedy(rule).startswith("delete the rule by its handle: ")
    chain = setting("leaf1", "nft inet fw input hook input policy drop")
    assert remedy(replace(chain, handle=7)).startswith("delete the chain if it is new")


def test_a_neighbour_is_removed_after_the_lines_that_name_it() -> None:
    """FRR removes all of them with it, and rejects a line of a neighbour that it does not have."""
    neighbour = "frr router bgp 1 / neighbor swp1 interface"
    lines = [
        setting("leaf2", f"{neighbour} remote-as 65099"),
        setting("leaf2", "frr router bgp 1 / address-family ipv4 unicast / neighbor swp1 activate"),
        setting("leaf2", f"{neighbour} peer-group FABRIC", value="absent", expected="present"),
    ]
    typed = [each.rpartition(" -c ")[2] for each in remedies(lines)]
    assert typed == [
        "'no neighbor swp1 activate'", "'no neighbor swp1 interface remote-as 65099'",
        "'neighbor swp1 interface peer-group FABRIC'",
    ]  # fmt: skip


def test_a_peer_group_is_removed_after_its_members() -> None:
    lines = ["neighbor NEW peer-group", "neighbor NEW remote-as external", "neighbor swp1 interface peer-group NEW"]
    typed = [
        each.rpartition(" -c ")[2].strip("'")
        for each in remedies(setting("leaf1", f"frr router bgp 1 / {line}") for line in lines)
    ]
    assert typed == [f"no {line}" for line in reversed(lines)]


def test_a_threshold_that_a_group_should_not_have_goes_with_the_other_one() -> None:
    """``qos set`` takes no ``none`` for them: a group has a fixed threshold, or a share of the buffer."""
    fixed = setting("leaf1", "port swp3", "groups.3.xoff", "swp3", value="20000", expected="none")
    shared = setting("leaf1", "port swp3", "groups.3.alpha", "swp3", value="none", expected="1")
    assert remedies([fixed, shared]) == ["rocelab qos set leaf1:swp3 buffer.groups.3.alpha=1"]
