"""The readers: iproute2's, nft's and FRR's answers as audited objects."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from lab.audit.objects.kernel_objects import SysctlAudit
from lab.audit.readers import kernel_reader
from lab.audit.readers.kernel_reader import ipsec_policy, parse_routes, read_ipsec_here
from lab.audit.readers.namespace_files import read_sysctls_here
from lab.audit.readers.nft_reader import devices_of, parse_ruleset
from lab.audit.readers.router_reader import configuration_lines, parse_neighbors
from lab.errors import CommandFailed
from lab.kernel.netlink.nlmsg import attribute
from lab.kernel.process import tuning
from lab.kernel.process.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable


def test_routes_of_every_type() -> None:
    """Single addresses get their length, multipath routes are one, and the cache is left out."""
    shown: list[dict[str, Any]] = [
        {"type": "unicast", "dst": "default", "gateway": "10.0.0.0", "dev": "eth1", "table": "main",
         "protocol": "static", "metric": 100, "flags": []},
        {"type": "blackhole", "dst": "10.0.0.4", "table": "main", "protocol": "boot", "flags": []},
        {"type": "unicast", "dst": "10.0.0.6/31", "protocol": "bgp", "metric": 20, "flags": [], "nexthops": [
            {"via": {"family": "inet6", "host": "fe80::1"}, "dev": "swp2", "weight": 1, "flags": []},
            {"gateway": "10.1.1.1", "dev": "swp1", "weight": 3, "flags": ["linkdown"]}]},
        {"dst": "ff00::/8", "dev": "swp1", "table": "local", "metric": 256, "type": "multicast", "flags": [],
         "pref": "medium"},
        {"dst": "ff00::/8", "dev": "swp2", "table": "local", "metric": 256, "type": "multicast", "flags": [],
         "pref": "medium"},
        {"dst": "default", "dev": "swp2", "metric": 1024, "flags": [], "pref": "medium"},
        {"dst": "10.0.0.9", "dev": "swp1", "cache": [], "flags": ["cloned"]},
    ]  # fmt: skip
    found = [(each.identity, each.type, each.next_hops) for each in parse_routes(shown)]
    assert found == [
        ("route 0.0.0.0/0 metric 100", "unicast", ("via 10.0.0.0 dev eth1",)),
        ("route 10.0.0.4/32", "blackhole", ()),
        (
            "route 10.0.0.6/31 metric 20",
            "unicast",
            ("via 10.1.1.1 dev swp1 weight 3 linkdown", "via fe80::1 dev swp2"),
        ),
        ("route ff00::/8 table local metric 256", "multicast", ("dev swp1", "dev swp2")),
        ("route ::/0 metric 1024", "unicast", ("dev swp2",)),
    ]


def test_entries_without_arp_that_a_command_added() -> None:
    """The kernel adds those of groups and broadcast, and those with the port's own MAC after ``arp off``. FRR adds
    those of remote hosts of a tunnel.
    """
    links = [{"ifname": "swp1", "address": "02:00:00:00:00:01"}, {"ifname": "lo", "address": "00:00:00:00:00:00"}]
    shown: list[dict[str, Any]] = [
        {"dst": "10.0.0.2", "dev": "swp1", "lladdr": "02:00:00:00:00:09", "state": ["NOARP"]},
        {"dst": "10.0.0.3", "dev": "swp1", "lladdr": "02:00:00:00:00:01", "state": ["NOARP"]},
        {"dst": "10.0.0.255", "dev": "swp1", "lladdr": "ff:ff:ff:ff:ff:ff", "state": ["NOARP"]},
        {"dst": "ff02::16", "dev": "swp1", "lladdr": "33:33:00:00:00:16", "state": ["NOARP"]},
        {"dst": "127.0.0.1", "dev": "lo", "lladdr": "00:00:00:00:00:00", "state": ["NOARP"]},
        {"dst": "10.0.0.4", "dev": "swp1", "state": ["NOARP"]},
        {"dst": "10.0.0.5", "dev": "vlan10", "lladdr": "02:00:00:00:00:05", "extern_learn": None, "state": ["NOARP"]},
    ]
    found = kernel_reader.configured_without_arp(shown, links)
    assert [each["dst"] for each in found] == ["10.0.0.2"]


def test_the_state_of_a_kernel_as_iproute2_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that a node answers for is an entry beside that of the neighbour.

    A port that joins no group is listed, unlike the loopback interface, and the offloads of ports. So are limits of
    segmentation and an MTU of IPv6 that are not the usual ones.
    """
    shown = [
        {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536},
        {"ifname": "swp1", "flags": ["BROADCAST", "UP"], "mtu": 9000},
        {"ifname": "swp2", "flags": ["BROADCAST", "MULTICAST", "UP"], "mtu": 9000, "gso_max_size": 65_536,
         "gso_max_segs": 7, "gro_max_size": 4000},
    ]  # fmt: skip
    near = [{"dst": "10.0.0.0", "dev": "swp1", "lladdr": "02:00:00:00:00:09", "state": ["REACHABLE"]}]
    proxies = [{"dst": "10.0.0.0", "dev": "swp1", "proxy": None}]
    answers = {"ip": [shown, [], near, [], [], proxies], "tc": [[]], "-6": [[]]}
    monkeypatch.setattr(kernel_reader, "_ask", lambda _, tool, *__: answers[tool])
    monkeypatch.setattr(kernel_reader, "_rules_of_ipv6", lambda _: [])
    monkeypatch.setattr(Namespace, "inside", lambda _, work: work())
    on = {"swp1": ("tso", "gro"), "swp2": ()}
    monkeypatch.setattr(tuning, "offloads", lambda names: {name: on[name] for name in names})
    monkeypatch.setattr(
        kernel_reader, "read_ipv6_mtus_here", lambda names: dict(zip(names, (9000, 1500), strict=True))
    )
    found = kernel_reader.read_kernel(Namespace("leaf1"))
    assert [(each.identity, each.permanent) for each in found.neighbours] == [
        ("neighbour 10.0.0.0 swp1", False), ("neighbour proxy 10.0.0.0 swp1", True),
    ]  # fmt: skip
    assert [each.options for each in found.interfaces] == [
        {}, {"NOMULTICAST": "yes", "offloads": "tso, gro"},
        {"offloads": "none", "gso_max_segs": "7", "gro_max_size": "4000", "ipv6 mtu": "1500"},
    ]  # fmt: skip


def test_nft_rules_have_their_hits_apart() -> None:
    rule = {
        "family": "inet", "table": "t", "chain": "c", "handle": 4,
        "expr": [{"match": {"op": "=="}}, {"counter": {"packets": 7, "bytes": 900}}, {"drop": None}],
    }  # fmt: skip
    chain = {"family": "inet", "table": "t", "name": "c", "hook": "forward", "policy": "drop"}
    found = list(parse_ruleset({"nftables": [{"metainfo": {}}, {"chain": chain}, {"rule": rule}]}))
    assert [(each.chain, each.rule, each.packets, each.bytes, each.number) for each in found] == [
        ("inet t c", "hook forward policy drop", 0, 0, 0),
        ("inet t c", '[{"match": {"op": "=="}}, {"drop": null}]', 7, 900, 4),
    ]
    assert "number" not in found[1].settings(), "it may change by itself"


@pytest.mark.parametrize(
    ("shown", "selector", "action"),
    [
        ({"src": "all", "table": "main"}, "", "lookup main"),
        ({"not": None, "src": "all", "fwmark": "0x5", "fwmask": "0xff", "table": "77"}, "not fwmark 0x5/0xff",
         "lookup 77"),
        ({"src": "10.0.0.0", "srclen": 8, "uid_start": 0, "uid_end": 5, "ipproto": "udp", "sport": 9,
          "dport_start": 1, "dport_end": 100, "action": "prohibit"},
         "from 10.0.0.0/8 uidrange 0-5 ipproto udp sport 9 dport 1-100", "prohibit"),
        ({"src": "all", "table": "main", "suppress_prefixlen": 31}, "", "lookup main suppress_prefixlength 31"),
        ({"src": "all", "dst": "10.0.0.9", "goto": 32767}, "to 10.0.0.9", "goto 32767"),
        ({"src": "all", "iif": "lo", "nop": None}, "iif lo", "nop"),
        ({"src": "all", "l3mdev": None}, "l3mdev", ""),
    ],
)  # fmt: skip
def test_a_policy_rule_is_as_a_command_takes_it(shown: dict[str, Any], selector: str, action: str) -> None:
    """Its fix deletes it by these words."""
    found = kernel_reader._rule("inet", {"priority": 100, **shown})
    assert (found.selector, found.action) == (selector, action)


def test_a_chain_of_one_device_belongs_to_it_with_its_rules() -> None:
    """Messages as the kernel sends them: the hook of the second chain has a list of two devices."""

    def chain(name: bytes, *devices: bytes) -> bytes:
        listed = b"".join(attribute(1, each + b"\0") for each in devices)
        hook = attribute(1, bytes(4)) + (
            attribute(3, devices[0] + b"\0") if len(devices) == 1 else attribute(4, listed)
        )
        return bytes((5, 0, 0, 0)) + attribute(1, b"t\0") + attribute(3, name + b"\0") + attribute(4, hook)

    devices = dict(devices_of([chain(b"c", b"swp1"), chain(b"d", b"swp1", b"swp2")]))
    assert devices == {"netdev t c": "swp1"}
    base = {"family": "netdev", "table": "t", "name": "c", "hook": "ingress", "policy": "accept"}
    rule = {"family": "netdev", "table": "t", "chain": "c", "expr": [{"drop": None}]}
    found = list(parse_ruleset({"nftables": [{"chain": base}, {"rule": rule}]}, devices))
    assert [each.place for each in found] == ["swp1", "swp1"]


def test_a_filter_that_emulates_a_faulty_cable_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs and classifiers at the same hook are; the first entry of a priority has no options."""
    shown = [
        {"protocol": "all", "pref": 7, "kind": "bpf", "chain": 0},
        {"protocol": "all", "pref": 7, "kind": "bpf", "options": {"handle": "0x1", "bpf_name": "rl_impair"}},
        {"protocol": "all", "pref": 8, "kind": "bpf", "options": {"handle": "0x1", "bpf_name": "port_rx"}},
        {"protocol": "ip", "pref": 9, "kind": "u32", "options": {"fh": "800::800", "actions": [{"kind": "gact"}]}},
    ]
    monkeypatch.setattr(kernel_reader, "_ask", lambda _space, _program, lines: [shown for _ in lines])
    queues = [{"dev": "swp1", "kind": "clsact"}]
    found = list(kernel_reader._filters(Namespace("leaf1"), queues))
    assert {(each.priority, each.kind) for each in found} == {(8, "bpf"), (9, "u32")}


def test_a_kernel_without_vlans_has_the_other_tables_of_its_bridges(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_space: Namespace, program: str, lines: list[str]) -> list[list[dict[str, str]]]:
        if "vlan show" in lines:
            raise CommandFailed([program], 1, "Operation not supported")
        return [[{"mac": "02:00:00:00:00:01"}] for _ in lines]

    monkeypatch.setattr(kernel_reader, "_ask", answer)
    assert kernel_reader._bridge_tables(Namespace("leaf1")) == [[{"mac": "02:00:00:00:00:01"}], []]


def test_configuration_lines_have_their_contexts() -> None:
    text = "frr version 10\nhostname x\n!\nrouter bgp 1\n address-family ipv4\n  maximum-paths 64\n exit\nexit\n"
    assert configuration_lines(text) == [
        "router bgp 1", "router bgp 1 / address-family ipv4", "router bgp 1 / address-family ipv4 / maximum-paths 64",
    ]  # fmt: skip


def test_bgp_sessions_of_all_vrfs() -> None:
    peer = {
        "remoteAs": 1, "localAs": 2, "bgpState": "Active", "bgpTimerHoldTimeMsecs": 9000,
        "connectionsEstablished": 3, "connectionsDropped": 2, "lastResetDueTo": "BFD down received",
        "lastResetTimerMsecs": 4000, "addressFamilyInfo": {"ipv4Unicast": {"acceptedPrefixCounter": 4}},
    }  # fmt: skip
    said = {"default": {"vrfId": 0, "vrfName": "default", "swp1": peer}, "red": {"vrfId": 9, "10.0.0.1": peer}}
    one, other = parse_neighbors(said)
    assert (one.peer, one.vrf, one.state, one.hold_time, one.dropped) == ("swp1", "", "Active", 9.0, 2)
    assert (one.last_reset, one.reset_age, one.prefixes) == ("BFD down received", 4.0, {"ipv4Unicast": 4})
    assert (other.peer, other.vrf) == ("10.0.0.1", "red")
    (shut,) = parse_neighbors({"default": {"swp1": peer | {"bgpState": "Idle", "adminShutDown": True}}})
    (failed,) = parse_neighbors({"default": {"swp1": peer | {"bgpState": "Idle"}}})
    assert (shut.state, failed.state) == ("Idle (Admin)", "Idle")


def test_a_policy_of_ipsec_is_a_filter() -> None:
    """As the kernel answers ``ip xfrm policy add src fd00::/64 proto udp dir in action block``."""
    selector = bytes(16) + b"\xfd" + bytes(15) + bytes(8) + struct.pack("=HBBB3x4x4x", socket.AF_INET6, 0, 64, 17)
    content = selector + b"\xff" * 64 + bytes(32) + struct.pack("=IIBBBB4x", 7, 8, 0, 1, 0, 0)
    found = ipsec_policy(content)
    assert found.identity == "filter in 7 xfrm 8"
    assert found.match == "block from fd00::/64 to ::/0 proto 17"
    allowed = ipsec_policy(content[:161] + b"\0" + content[162:])
    assert allowed.match == "allow from fd00::/64 to ::/0 proto 17"


def test_a_kernel_without_ipsec_has_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error is reported: policies that cannot be read may block packets."""

    def refusing(number: int) -> Callable[[int], socket.socket]:
        def opened(_: int) -> socket.socket:
            raise OSError(number, os.strerror(number))

        return opened

    monkeypatch.setattr(kernel_reader, "netlink_socket", refusing(errno.EPROTONOSUPPORT))
    assert read_ipsec_here() == ()
    monkeypatch.setattr(kernel_reader, "netlink_socket", refusing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        read_ipsec_here()


def test_how_often_a_port_asks_for_a_mac_belongs_to_the_port() -> None:
    assert SysctlAudit("net.ipv4.neigh.swp3.mcast_solicit", "0").place == "swp3"
    assert SysctlAudit("net.ipv4.neigh.eth1.20.mcast_solicit", "0").place == "eth1.20"
    names = {each.name for each in read_sysctls_here()}
    assert {"net.ipv4.neigh.lo.mcast_solicit", "net.ipv4.neigh.lo.ucast_solicit"} <= names


def test_what_a_bridge_learned_is_no_setting_of_it() -> None:
    shown = {
        "hello_timer": 1.2,
        "topology_change": 0,
        "topology_change_ack": 1,
        "fdb_n_learned": 7,
        "fdb_max_learned": 0,
    }
    assert kernel_reader._flat(shown) == {"fdb_max_learned": "0"}
    for tree, known in ((0, {"stp_state": "0", "ageing_time": "800"}), (1, {"stp_state": "1"})):
        shown = {"stp_state": tree, "ageing_time": 800, "forward_delay": 400, "config_pending": 1}
        assert kernel_reader._flat(shown) == {**known, "forward_delay": "400"}


def test_a_bridge_with_a_spanning_tree_that_forgets_addresses_at_once_has_a_setting_of_its_own() -> None:
    """It floods all frames. No change of the topology makes the time shorter than twice the forward delay."""
    shown = {"stp_state": 1, "ageing_time": 0, "forward_delay": 400}
    assert kernel_reader._flat(shown) == {"stp_state": "1", "ageing_time": "0", "forward_delay": "400"}


def test_a_match_that_tc_prints_as_text_amid_its_json_is_read() -> None:
    """As at leaves with bonds: iproute2 6.1 and later."""
    shown = '[{"kind":"basic","options":{"handle":"1ffff"\n  meta(priority eq 131071)\n,"actions":[]}}]\n[]\n'
    read = kernel_reader._EMATCH.sub(kernel_reader._as_member, shown)
    (found,), _ = (json.loads(line) for line in read.splitlines())
    assert found["options"] == {"handle": "1ffff", "ematch": "meta(priority eq 131071)", "actions": []}
    assert kernel_reader._EMATCH.sub(kernel_reader._as_member, "[]\n[]\n") == "[]\n[]\n"
