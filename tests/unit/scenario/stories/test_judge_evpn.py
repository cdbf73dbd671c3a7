"""Scenarios of the overlay, judged: each check has a recording that it passes, fails, and cannot tell of."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lab.scenario.judge import judge
from tests.unit.scenario.played import Act, Acts, Change, Printed, failing, outcomes, play, spoilt

H1, H2, FLOOD = "02:1a:00:06:00:01", "02:1a:00:07:00:01", "00:00:00:00:00:00"
LEAF1, LEAF2, LEAF3 = "10.252.0.1", "10.252.0.2", "10.252.0.3"
OVERHEAD = 78
"""Of VXLAN, IP and ICMP: what a probe's size is short of an MTU between switches."""


def fdb(vtep: str, *macs: str) -> Printed:
    """What leaf1 has behind a VTEP, and one entry of its own."""
    entries = [{"mac": mac, "ifname": "vni10010", "dst": vtep, "flags": ["self"], "state": ""} for mac in macs]
    own = {"mac": H1, "ifname": "vni10010", "vlan": 10, "flags": [], "master": "bridge", "state": "permanent"}
    return "leaf1", "bridge -json fdb show dev vni10010", json.dumps([own, *entries]), 0


def frr(said: Any) -> Printed:
    return "leaf1", "vtysh --vty_socket /run -c show", json.dumps(said), 0


def paths(count: int) -> Printed:
    """A route with so many next hops: one has no list, and without a route nothing is printed."""
    hops = [{"dev": f"swp{number}", "flags": []} for number in range(count)]
    routes = [{"dst": LEAF2, **({"nexthops": hops} if count > 1 else hops[0])}] if count else []
    return "leaf1", "ip -json route show 10.252.0.2", json.dumps(routes) if routes else "", 0


def ping(code: int, node: str = "h1", size: int = 56) -> Printed:
    return node, f"ping -n -q -M do -c 2 -s {size} 10.1.10.3", "", code


def session(state: str) -> dict[str, Any]:
    return {"source": "routing", "node": "leaf2", "interface": "swp1", "kind": "bgp", "state": state, "before": ""}


def link() -> dict[str, Any]:
    up = {"up": False, "admin_up": True, "mtu": 4350}
    return {"source": "kernel", "node": "leaf2", "interface": "swp1", "kind": "link", **up}


def peers(state: str, *families: str) -> Printed:
    return frr({family: {"peers": {name: {"state": state} for name in ("swp1", "swp2")}} for family in families})


def told(*valid: bool) -> Printed:
    """spine1's routes by leaf3's VTEP."""
    routes = [
        {"paths": [[{"nexthops": [{"ip": LEAF3, "used": True}], **({"valid": True} if each else {})}]]}
        for each in valid
    ]
    return frr({"10.253.0.3:2": {f"[{number}]": route for number, route in enumerate(routes)}})


def answered(*codes: int) -> list[Printed]:
    return [ping(code) for code in codes]


FORGOTTEN = Act({}, [ping(1), fdb(LEAF1), frr({H1: {}})])
MISMATCH: Acts = {
    "baseline": Act({}, [ping(0), fdb(LEAF1, H1, FLOOD), frr({H1: {}})]),
    "observe": FORGOTTEN,
    "verify": Act({}, [ping(0), fdb(LEAF1, H1, FLOOD), frr({H1: {}})]),
}
WELL = Act({}, [ping(0), fdb(LEAF2, FLOOD), frr({LEAF2: {}}), paths(2)])
SILENT: Acts = {"baseline": WELL, "observe": Act({}, [ping(1), fdb(LEAF2), frr({}), paths(2)]), "verify": WELL}
BOTH = ("ipv4Unicast", "l2VpnEvpn")
LIT = Act({}, [*answered(0, 0), fdb(LEAF2, FLOOD, H2), paths(2), peers("Established", *BOTH)])
DARK: Acts = {
    "baseline": LIT,
    "observe": Act({}, [*answered(1, 0), fdb(LEAF2), paths(2), peers("Established", "ipv4Unicast")]),
    "verify": LIT,
}
LEAF = ping(0, "leaf1")
USED = Act({}, [*answered(0, 0), paths(2), LEAF, told(True, True)])
UNRESOLVED: Acts = {
    "baseline": USED,
    "observe": Act({}, [*answered(0, 1), paths(0), LEAF, told(False, False)]),
    "verify": USED,
}
SIZES = (4200 - OVERHEAD, 4200 - OVERHEAD + 8, 4300 - 28)


def probes(*codes: int) -> list[Printed]:
    return [ping(code, size=size) for size, code in zip(SIZES, codes, strict=True)]


GOES = Act({"h1": {"rcvd_pkts": 200}}, probes(0, 0, 0))
NARROW: Acts = {
    "baseline": GOES,
    "observe": Act(
        {"h1": {"completer_retry_err": 2}, "spine1:swp3": {"tx_packets": 60}, "leaf3:swp1": {"rx_packets": 20}},
        probes(0, 1, 1),
    ),
    "verify": GOES,
}
CLEAN = {"leaf3:swp1": {"rx_packets": 900}, "leaf3:swp2": {"rx_packets": 900, "rx_packets0": 3}}
LOST: Acts = {
    "baseline": Act(CLEAN),
    "observe": Act({
        "leaf3:swp1": {"rx_packets": 500, "rx_packets0": 800}, "leaf3:swp3": {"tx_packets0": 600, "lost0": 90},
        "h3:eth1": {"rx_packets": 1100, "rx_packets0": 2}, "h3": {"out_of_seq_request": 40},
    }),
    "verify": Act(CLEAN),
}  # fmt: skip
ROUTED = ping(0, "h2")


def imet(vni: int) -> Printed:
    """What leaf1 shows of leaf2's type-3 route."""
    return "leaf1", "vtysh --vty_socket /run -c show", f"[3]:[0]:[32]:[{LEAF2}]  RT:28834:{vni} ET:8", 0


SAME = Act({}, [ping(0), ROUTED, fdb(LEAF2, FLOOD), imet(10010)])
OTHERWISE: Acts = {
    "baseline": SAME,
    "observe": Act({}, [ping(1), ROUTED, fdb(LEAF2), imet(10011)]),
    "verify": SAME,
}


def moved(local: int, remote: int, duplicate: bool = False, kind: str = "local") -> Printed:
    """What leaf1 says of h1's MAC."""
    return frr({H1: {"type": kind, "localSequence": local, "remoteSequence": remote, "isDuplicate": duplicate}})


def bridged(*macs: str) -> Printed:
    """What leaf1's bridge has at its tunnel, and what the tunnel still has of h1's MAC."""
    old = {"mac": H1, "ifname": "vni10010", "dst": LEAF2, "flags": ["self"], "state": ""}
    entries = [{"mac": mac, "ifname": "vni10010", "vlan": 10, "flags": [], "master": "bridge"} for mac in macs]
    return "leaf1", "bridge -json fdb show dev vni10010", json.dumps([old, *entries]), 0


AT_HOME = Act({}, [ping(0, "h2"), bridged(H2), moved(0, 0)])
CLONED: Acts = {
    "baseline": AT_HOME,
    "observe": Act({}, [ping(1, "h2"), bridged(H1), moved(6, 7, duplicate=True, kind="remote")]),
    "verify": Act({}, [ping(0, "h2"), bridged(H2), moved(10, 9)]),
}
ANYCAST, DRIFTED = "02:1a:00:00:00:01", "02:1a:00:00:00:02"


def gateway(leaf: str, mac: str) -> Printed:
    return leaf, "ip -json link show dev vlan20", json.dumps([{"ifname": "vlan20", "address": mac}]), 0


def knows(mac: str) -> Printed:
    return "h3", "ip -json neigh show to 10.1.20.1", json.dumps([{"dst": "10.1.20.1", "lladdr": mac}]), 0


ONE = Act({}, [ping(0, "h3"), ping(0), knows(ANYCAST), gateway("leaf3", ANYCAST), gateway("leaf1", ANYCAST)])
TWO: Acts = {
    "baseline": ONE,
    "observe": Act(
        {}, [ping(1, "h3"), ping(0), knows(ANYCAST), gateway("leaf3", DRIFTED), gateway("leaf1", ANYCAST)]
    ),
    "verify": ONE,
}
GOOD = {
    "evpn-rt-mismatch": MISMATCH, "evpn-no-imet": SILENT, "evpn-af-missing": DARK, "vtep-unreachable": UNRESOLVED,
    "vxlan-mtu": NARROW, "dscp-lost-in-vxlan": LOST, "evpn-vni-mismatch": OTHERWISE, "duplicate-mac": CLONED,
    "gateway-mac-conflict": TWO,
}  # fmt: skip


@pytest.mark.parametrize("scenario", GOOD)
def test_a_good_run_passes(scenario: str, tmp_path: Path) -> None:
    assert set(outcomes(play(tmp_path, scenario, GOOD[scenario])).values()) == {"pass"}


@pytest.mark.parametrize(
    ("scenario", "change", "wrong"),
    [
        ("vxlan-mtu", ("observe", "h1", "completer_retry_err", 0), "no-write-completes"),
        ("vxlan-mtu", ("baseline", "h1", "completer_retry_err", 1), "no-write-completes"),
        ("vxlan-mtu", ("observe", "h1", "rcvd_pkts", 1), "no-write-completes"),
        ("vxlan-mtu", ("verify", "h1", "rcvd_pkts", 0), "no-write-completes"),
        ("vxlan-mtu", ("observe", "leaf3:swp2", "rx_packets", 40), "no-port-counts-a-drop"),
        ("vxlan-mtu", ("observe", "leaf3:swp2", "lost", 1), "no-port-counts-a-drop"),
        ("evpn-rt-mismatch", ("observe", "leaf3:swp2", "lost", 1), "nothing-alarms"),
        ("evpn-vni-mismatch", ("observe", "leaf3:swp2", "lost", 1), "nothing-alarms"),
        ("dscp-lost-in-vxlan", ("observe", "leaf3:swp1", "rx_packets0", 90), "the-core-has-another-class"),
        ("dscp-lost-in-vxlan", ("baseline", "leaf3:swp1", "rx_packets0", 90), "the-core-has-another-class"),
        ("dscp-lost-in-vxlan", ("verify", "leaf3:swp1", "rx_packets0", 90), "the-core-has-another-class"),
        ("dscp-lost-in-vxlan", ("observe", "h3:eth1", "rx_packets0", 600), "hosts-see-the-right-class"),
        ("dscp-lost-in-vxlan", ("observe", "h3:eth1", "rx_packets", 500), "hosts-see-the-right-class"),
        ("dscp-lost-in-vxlan", ("observe", "leaf3:swp3", "lost0", 0), "the-last-leaf-drops"),
        ("dscp-lost-in-vxlan", ("baseline", "leaf3:swp3", "lost0", 1), "the-last-leaf-drops"),
        ("dscp-lost-in-vxlan", ("observe", "spine1:swp3", "lost", 1), "the-last-leaf-drops"),
        ("dscp-lost-in-vxlan", ("observe", "h3", "out_of_seq_request", 0), "lost-packets-are-sent-again"),
        ("dscp-lost-in-vxlan", ("verify", "h3", "out_of_seq_request", 1), "lost-packets-are-sent-again"),
    ],
)
def test_what_is_counted_decides(scenario: str, change: Change, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, scenario, spoilt(GOOD[scenario], change)) == [wrong]


@pytest.mark.parametrize(
    ("scenario", "line", "said", "wrong"),
    [
        ("evpn-rt-mismatch", ("observe", 2), frr({}), "bgp-has-the-route"),
        ("evpn-rt-mismatch", ("observe", 1), fdb(LEAF1, FLOOD), "the-kernel-lacks-the-route"),
        ("evpn-rt-mismatch", ("verify", 1), fdb(LEAF1, FLOOD), "the-kernel-lacks-the-route"),
        ("evpn-rt-mismatch", ("baseline", 1), fdb(LEAF1, H1), "the-kernel-lacks-the-route"),
        ("evpn-rt-mismatch", ("observe", 0), ping(0), "the-hosts-do-not-reach-each-other"),
        ("evpn-rt-mismatch", ("verify", 0), ping(1), "the-hosts-do-not-reach-each-other"),
        ("evpn-no-imet", ("observe", 2), frr({LEAF2: {}}), "the-type-3-route-is-missing"),
        ("evpn-no-imet", ("verify", 2), frr({}), "the-type-3-route-is-missing"),
        ("evpn-no-imet", ("observe", 1), fdb(LEAF2, FLOOD), "the-flood-list-lacks-the-leaf"),
        ("evpn-no-imet", ("verify", 1), fdb(LEAF2, H2), "the-flood-list-lacks-the-leaf"),
        ("evpn-no-imet", ("observe", 0), ping(0), "arp-fails"),
        ("evpn-no-imet", ("observe", 3), paths(1), "the-underlay-works"),
        ("evpn-af-missing", ("observe", 4), peers("Established", *BOTH), "sessions-lack-the-family"),
        ("evpn-af-missing", ("observe", 4), peers("Active", "ipv4Unicast"), "sessions-lack-the-family"),
        ("evpn-af-missing", ("verify", 4), peers("Established", "ipv4Unicast"), "sessions-lack-the-family"),
        ("evpn-af-missing", ("observe", 2), fdb(LEAF2, FLOOD), "the-overlay-is-down"),
        ("evpn-af-missing", ("observe", 0), ping(0), "the-overlay-is-down"),
        ("evpn-af-missing", ("observe", 1), ping(1), "the-overlay-is-down"),
        ("evpn-af-missing", ("observe", 3), paths(1), "the-underlay-works"),
        ("vtep-unreachable", ("observe", 2), paths(1), "there-is-no-route-to-the-vtep"),
        ("vtep-unreachable", ("verify", 2), paths(1), "there-is-no-route-to-the-vtep"),
        ("vtep-unreachable", ("observe", 4), told(), "evpn-routes-are-not-valid"),
        ("vtep-unreachable", ("observe", 4), told(False, True), "evpn-routes-are-not-valid"),
        ("vtep-unreachable", ("verify", 4), told(False), "evpn-routes-are-not-valid"),
        ("vtep-unreachable", ("observe", 3), ping(1, "leaf1"), "the-loopback-is-reached"),
        ("vtep-unreachable", ("observe", 1), ping(0), "its-hosts-are-not-reached"),
        ("vtep-unreachable", ("observe", 0), ping(1), "its-hosts-are-not-reached"),
        ("evpn-vni-mismatch", ("observe", 3), imet(10010), "the-route-has-another-vni"),
        ("evpn-vni-mismatch", ("verify", 3), imet(10011), "the-route-has-another-vni"),
        ("evpn-vni-mismatch", ("observe", 3), frr(":10011"), "the-route-has-another-vni"),
        ("evpn-vni-mismatch", ("observe", 2), fdb(LEAF2, FLOOD), "the-route-is-not-imported"),
        ("evpn-vni-mismatch", ("verify", 2), fdb(LEAF2, H2), "the-route-is-not-imported"),
        ("evpn-vni-mismatch", ("observe", 0), ping(0), "the-network-is-split"),
        ("evpn-vni-mismatch", ("observe", 1), ping(1, "h2"), "the-network-is-split"),
        ("evpn-vni-mismatch", ("verify", 0), ping(1), "the-network-is-split"),
        ("duplicate-mac", ("observe", 2), moved(3, 4, duplicate=True), "the-sequence-number-climbs"),
        ("duplicate-mac", ("verify", 2), moved(10, 11, kind="remote"), "the-sequence-number-climbs"),
        ("duplicate-mac", ("observe", 2), moved(6, 7), "leaf1-flags-a-duplicate"),
        ("duplicate-mac", ("verify", 2), moved(10, 9, duplicate=True), "leaf1-flags-a-duplicate"),
        ("duplicate-mac", ("observe", 1), bridged(H2), "its-leaf-forwards-it-away"),
        ("duplicate-mac", ("verify", 1), bridged(H1), "its-leaf-forwards-it-away"),
        ("duplicate-mac", ("observe", 0), ping(0, "h2"), "the-hosts-do-not-reach-each-other"),
        ("duplicate-mac", ("verify", 0), ping(1, "h2"), "the-hosts-do-not-reach-each-other"),
        ("gateway-mac-conflict", ("observe", 3), gateway("leaf3", ANYCAST), "one-leaf-has-another-mac"),
        ("gateway-mac-conflict", ("observe", 4), gateway("leaf1", DRIFTED), "one-leaf-has-another-mac"),
        ("gateway-mac-conflict", ("verify", 3), gateway("leaf3", DRIFTED), "one-leaf-has-another-mac"),
        ("gateway-mac-conflict", ("observe", 2), knows(DRIFTED), "the-host-has-the-right-mac"),
        ("gateway-mac-conflict", ("observe", 0), ping(0, "h3"), "routed-traffic-is-lost"),
        ("gateway-mac-conflict", ("observe", 1), ping(1), "routed-traffic-is-lost"),
        ("gateway-mac-conflict", ("verify", 0), ping(1, "h3"), "routed-traffic-is-lost"),
        ("vxlan-mtu", ("observe", 1), ping(0), "probes-fail-above-a-size"),
        ("vxlan-mtu", ("observe", 0), ping(1), "probes-fail-above-a-size"),
        ("vxlan-mtu", ("verify", 2), ping(1), "probes-fail-above-a-size"),
    ],
)
def test_what_is_printed_decides(
    scenario: str, line: tuple[str, int], said: Printed, wrong: str, tmp_path: Path
) -> None:
    """Another line, the number of a phase, than in the good run."""
    phase, number = line
    acts = deepcopy(GOOD[scenario])
    acts[phase] = Act(acts[phase].counted, [*acts[phase].ran[:number], said, *acts[phase].ran[number + 1 :]])
    assert failing(tmp_path, scenario, acts) == [wrong]


@pytest.mark.parametrize(
    ("scenario", "event", "wrong"),
    [
        ("evpn-rt-mismatch", link(), "nothing-alarms"),
        ("evpn-rt-mismatch", session("Idle"), "nothing-alarms"),
        ("evpn-no-imet", link(), "the-underlay-works"),
        ("evpn-no-imet", session("Idle"), "the-underlay-works"),
        ("vtep-unreachable", session("Idle"), "the-loopback-is-reached"),
        ("vxlan-mtu", session("Idle"), "no-port-counts-a-drop"),
        ("evpn-vni-mismatch", link(), "nothing-alarms"),
        ("evpn-vni-mismatch", session("Idle"), "nothing-alarms"),
        ("duplicate-mac", session("Idle"), "no-session-is-lost"),
        ("gateway-mac-conflict", session("Idle"), "no-session-is-lost"),
    ],
)
def test_what_alarms_decides(scenario: str, event: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    acts = deepcopy(GOOD[scenario])
    acts["observe"].events = [event]
    assert failing(tmp_path, scenario, acts) == [wrong]


@pytest.mark.parametrize("scenario", GOOD)
def test_what_a_run_does_not_show_is_unknown(scenario: str, tmp_path: Path) -> None:
    """The phase in which it is broken is missing; and then the run was killed."""
    (tmp_path / "without").mkdir()
    rest = {name: act for name, act in GOOD[scenario].items() if name != "observe"}
    assert set(outcomes(play(tmp_path / "without", scenario, rest)).values()) == {"unknown"}
    found = judge(play(tmp_path, scenario, GOOD[scenario]).killed()).verdicts
    assert {verdict.outcome.value for verdict in found.values()} == {"unknown"}
