"""Scenarios of paths and hosts, judged: each check has a recording that it passes, fails, and cannot tell of."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scenario.played import Act, Acts, Change, Printed, failing, judging, outcomes, play


def routed(*interfaces: str) -> Printed:
    """What leaf1 shows of its route to h5: one next hop has no list (ip-route(8))."""
    hops = [{"dev": interface, "flags": []} for interface in interfaces]
    route = {"dst": "10.0.0.8/31", **({"nexthops": hops} if len(hops) > 1 else hops[0])}
    return "leaf1", "ip -json route show 10.0.0.8/31", json.dumps([route]), 0


def pinged(size: int, code: int) -> Printed:
    said = f"1 packets transmitted, {1 - code} received, {100 * code}% packet loss, time 0ms\n"
    return "h1", f"ping -n -q -M do -c 1 -s {size} 10.0.0.9", said, code


def told(source: str, node: str, interface: str, **data: Any) -> dict[str, Any]:
    return {"source": source, "node": node, "interface": interface, **data}


def session(state: str) -> dict[str, Any]:
    return told("routing", "leaf1", "swp1", kind="bgp", state=state, before="")


def link(node: str, *, up: bool) -> dict[str, Any]:
    return told("kernel", node, "swp1", kind="link", up=up, admin_up=True, mtu=9000)


BOTH = {"leaf1:swp1": {"tx_bytes": 1000, "tx_packets": 10}, "leaf1:swp2": {"tx_bytes": 900, "tx_packets": 9}}
ONE_PATH: Acts = {
    "baseline": Act(BOTH, [routed("swp1", "swp2")]),
    "observe": Act({"leaf1:swp2": {"tx_bytes": 1900}}, [routed("swp2")]),
    "verify": Act(BOTH, [routed("swp1", "swp2")]),
}
POLARISED: Acts = {
    "baseline": Act(BOTH),
    "observe": Act({"leaf1:swp2": {"tx_bytes": 1900}}, [routed("swp1", "swp2")]),
    "verify": Act(BOTH),
}
ARRIVED = {"leaf2:swp3": {"tx_bytes": 1900}}
RULES = (
    "chain forward {{ type filter hook forward priority filter; udp dport 4791 counter packets {} bytes 9 drop }}\n"
)
FILTERED: Acts = {
    "baseline": Act({**BOTH, **ARRIVED}, [pinged(56, 0)]),
    "observe": Act(
        {"h1": {"completer_retry_err": 8}}, [pinged(56, 0), ("leaf1", "nft list ruleset", RULES.format(40), 0)]
    ),
    "verify": Act({**BOTH, **ARRIVED}),
}
LINKS = [{"ifname": "lo", "mtu": 65536}, {"ifname": "swp1", "mtu": 1500}, {"ifname": "swp2", "mtu": 9000}]
BLACK_HOLE: Acts = {
    "baseline": Act({}, [pinged(1472, 0), pinged(1500, 0)]),
    "observe": Act(
        {"h1": {"completer_retry_err": 3}, "spine1:swp2": {"tx_packets": 100}, "leaf2:swp1": {"rx_packets": 60}},
        [pinged(1472, 0), pinged(1500, 1), pinged(1500, 0), ("leaf2", "ip -json link show", json.dumps(LINKS), 0)],
    ),
}
FLAP = [
    link("leaf1", up=False), link("spine1", up=False), session("Idle"),
    link("leaf1", up=True), link("spine1", up=True), session("Established"),
]  # fmt: skip
FLAPPING: Acts = {
    "baseline": Act(),
    "observe": Act({"h5": {"out_of_seq_request": 20}}, [], [*FLAP, *FLAP]),
    "verify": Act(),
}


def gids(*table: str) -> Printed:
    """What grep prints of h5's GID table."""
    lines = [f"/sys/class/infiniband/incast.h5.eth1/ports/1/gids/{index}:{gid}" for index, gid in enumerate(table)]
    return "h5", "grep -H :", "\n".join(lines), 0


EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:001a:09ff:fe00:0001"
OWN = "0000:0000:0000:0000:0000:ffff:0a00:0009"
SPARE = "0000:0000:0000:0000:0000:ffff:c000:0201"
MOVED: Acts = {
    "baseline": Act({"h5": {"rcvd_pkts": 500}}, [gids(LOCAL, OWN, EMPTY)]),
    "observe": Act({"h5": {"rcvd_pkts": 0}}, [gids(LOCAL, SPARE, OWN)]),
    "verify": Act({"h5": {"rcvd_pkts": 500}}),
}
COLLIDING: Acts = {
    "baseline": Act({**BOTH, "leaf2:swp3": {"tx_bytes": 1000}, "leaf2:swp4": {"tx_bytes": 900}}),
    "observe": Act(
        {"leaf1:swp1": {"tx_bytes": 1000}, "leaf2:swp3": {"tx_bytes": 500}, "leaf2:swp4": {"tx_bytes": 450}}
    ),
    "verify": Act({**BOTH, "leaf2:swp3": {"tx_bytes": 800}, "leaf2:swp4": {"tx_bytes": 800}}),
}


def answers(**ports: str) -> list[dict[str, Any]]:
    """What leaf1's ARP requests for the addresses of h1 and h2 are answered with, at each port and at no other."""
    asked = [(port, address) for port in ("swp3", "swp4") for address in ("10.0.0.1", "10.0.0.3")]
    return [
        told("caller", "leaf1", "", kind="note", text="asked", port=port, address=address,
             answers=["02:1a:00:00:00:01"] * (ports.get(port) == address))
        for port, address in asked
    ]  # fmt: skip


def lost(count: int) -> Printed:
    said = f"3 packets transmitted, {3 - count} received, {100 * count // 3}% packet loss, time 0ms\n"
    return "h1", "ping -n -q -M do -c 3 10.0.0.9", said, int(count > 0)


STRAIGHT, CROSSED = answers(swp3="10.0.0.1", swp4="10.0.0.3"), answers(swp3="10.0.0.3", swp4="10.0.0.1")
RECEIVED = {"leaf2:swp3": {"tx_bytes": 1900, "tx_packets": 19}}
SWAPPED: Acts = {
    "baseline": Act(RECEIVED, [lost(0)], STRAIGHT),
    "observe": Act({"h1": {"completer_retry_err": 8}}, [lost(3)], CROSSED),
    "verify": Act(RECEIVED, [lost(0)], STRAIGHT),
}
GOOD = {
    "cable-swapped": SWAPPED,
    "gid-index": MOVED,
    "elephant-collision": COLLIDING,
    "one-path-only": ONE_PATH,
    "hash-polarisation": POLARISED,
    "acl-4791": FILTERED,
    "mtu-black-hole": BLACK_HOLE,
    "link-flap": FLAPPING,
}
CHANGES: list[tuple[str, Change, str]] = [
    ("cable-swapped", ("observe", "leaf2:swp3", "tx_packets", 1), "h1-is-cut-off"),
    ("cable-swapped", ("observe", "h1", "completer_retry_err", 0), "qps-retransmit"),
    ("cable-swapped", ("baseline", "h1", "completer_retry_err", 1), "qps-retransmit"),
    ("cable-swapped", ("observe", "leaf1:swp3", "lost", 1), "nothing-alarms"),
    ("cable-swapped", ("verify", "leaf2:swp3", "tx_bytes", 1700), "rate-recovers"),
    ("gid-index", ("observe", "h5", "rcvd_pkts", 1), "nothing-arrives"),
    ("gid-index", ("baseline", "h5", "rcvd_pkts", 0), "nothing-arrives"),
    ("gid-index", ("verify", "h5", "rcvd_pkts", 0), "nothing-arrives"),
    ("gid-index", ("observe", "leaf1:swp1", "lost", 1), "nothing-alarms"),
    ("elephant-collision", ("observe", "leaf2:swp3", "tx_bytes", 560), "each-gets-half"),
    ("elephant-collision", ("observe", "leaf2:swp4", "tx_bytes", 400), "each-gets-half"),
    ("elephant-collision", ("observe", "leaf1:swp2", "tx_bytes", 1), "one-uplink-is-idle"),
    ("elephant-collision", ("baseline", "leaf1:swp2", "tx_bytes", 0), "one-uplink-is-idle"),
    ("elephant-collision", ("verify", "leaf2:swp3", "tx_bytes", 300), "many-qps-spread"),
    ("one-path-only", ("observe", "leaf1:swp1", "tx_bytes", 1), "one-uplink-is-idle"),
    ("one-path-only", ("baseline", "leaf1:swp1", "tx_bytes", 0), "one-uplink-is-idle"),
    ("one-path-only", ("verify", "leaf1:swp2", "tx_bytes", 0), "one-uplink-is-idle"),
    ("one-path-only", ("observe", "leaf1:swp2", "tx_bytes", 0), "one-uplink-is-idle"),
    ("one-path-only", ("observe", "leaf1:swp2", "lost", 1), "nothing-alarms"),
    ("hash-polarisation", ("observe", "leaf1:swp1", "tx_bytes", 1), "one-uplink-carries-all"),
    ("hash-polarisation", ("observe", "leaf1:swp2", "tx_bytes", 0), "one-uplink-carries-all"),
    ("hash-polarisation", ("baseline", "leaf1:swp1", "tx_bytes", 19_000), "ports-spread"),
    ("hash-polarisation", ("verify", "leaf1:swp1", "tx_bytes", 0), "ports-spread"),
    ("acl-4791", ("observe", "leaf1:swp1", "tx_packets", 1), "rdma-stops"),
    ("acl-4791", ("observe", "h1", "completer_retry_err", 0), "rdma-stops"),
    ("acl-4791", ("baseline", "h1", "completer_retry_err", 1), "rdma-stops"),
    ("acl-4791", ("observe", "leaf1:swp1", "lost", 1), "only-the-filter-counts-drops"),
    ("acl-4791", ("verify", "leaf2:swp3", "tx_bytes", 1700), "rate-recovers"),
    ("mtu-black-hole", ("observe", "h1", "completer_retry_err", 0), "only-large-messages-hang"),
    ("mtu-black-hole", ("baseline", "h1", "completer_retry_err", 1), "only-large-messages-hang"),
    ("mtu-black-hole", ("observe", "h2", "completer_retry_err", 1), "only-large-messages-hang"),
    ("mtu-black-hole", ("observe", "leaf2:swp1", "rx_packets", 100), "no-port-counts-a-drop"),
    ("mtu-black-hole", ("observe", "spine1:swp2", "lost", 40), "no-port-counts-a-drop"),
    ("link-flap", ("observe", "h5", "out_of_seq_request", 0), "packets-are-retransmitted"),
    ("link-flap", ("baseline", "h1", "completer_retry_err", 1), "packets-are-retransmitted"),
    ("link-flap", ("verify", "h5", "out_of_seq_request", 1), "stable-again"),
]
test_a_good_run_passes, test_each_check_has_one_that_it_fails, test_what_a_run_does_not_show_is_unknown = judging(
    GOOD, CHANGES, {"ports-spread", "rate-recovers", "stable-again"}
)


def printed(folder: Path, scenario: str, phase: str, *ran: Printed) -> dict[str, str]:
    """What is not a pass when other things were printed in a phase."""
    acts = deepcopy(GOOD[scenario])
    acts[phase].ran = list(ran)
    return {name: outcome for name, outcome in outcomes(play(folder, scenario, acts)).items() if outcome != "pass"}


def test_what_pings_and_arp_say_of_swapped_cables_decides(tmp_path: Path) -> None:
    assert printed(tmp_path / "1", "cable-swapped", "observe", lost(2)) == {"h1-is-cut-off": "fail"}
    assert printed(tmp_path / "2", "cable-swapped", "verify", lost(1)) == {"h1-is-cut-off": "fail"}
    for number, (phase, events, outcome) in enumerate((
        ("observe", STRAIGHT, "fail"), ("observe", CROSSED[:2], "fail"), ("verify", CROSSED, "fail"),
        ("baseline", CROSSED, "fail"), ("baseline", [], "unknown"),
    )):  # fmt: skip
        acts = deepcopy(SWAPPED)
        acts[phase].events = events
        found = outcomes(play(tmp_path / f"arp{number}", "cable-swapped", acts))
        assert {name: said for name, said in found.items() if said != "pass"} == {
            "each-host-answers-at-the-others-port": outcome
        }


def test_what_programs_print_decides(tmp_path: Path) -> None:
    two = routed("swp1", "swp2")
    assert printed(tmp_path / "1", "one-path-only", "observe", two) == {"the-rib-has-one-next-hop": "fail"}
    assert printed(tmp_path / "2", "one-path-only", "verify", routed("swp2")) == {"the-rib-has-one-next-hop": "fail"}
    assert printed(tmp_path / "3", "one-path-only", "observe") == {"the-rib-has-one-next-hop": "unknown"}
    single = routed("swp2")
    assert printed(tmp_path / "4", "hash-polarisation", "observe", single) == {"the-rib-has-both-next-hops": "fail"}
    assert printed(tmp_path / "5", "hash-polarisation", "observe") == {"the-rib-has-both-next-hops": "unknown"}


def test_what_the_gid_table_shows_decides(tmp_path: Path) -> None:
    told, moved = gids(LOCAL, OWN, EMPTY), gids(LOCAL, SPARE, EMPTY)
    assert printed(tmp_path / "1", "gid-index", "observe", told) == {"the-gid-has-another-index": "fail"}
    assert printed(tmp_path / "2", "gid-index", "observe", moved) == {"the-gid-has-another-index": "fail"}
    assert printed(tmp_path / "3", "gid-index", "baseline", moved) == {"the-gid-has-another-index": "unknown"}
    assert printed(tmp_path / "4", "gid-index", "observe") == {"the-gid-has-another-index": "unknown"}


def test_what_pings_and_filters_say_decides(tmp_path: Path) -> None:
    answered, lost, rules = FILTERED["observe"].ran[0], pinged(56, 1), FILTERED["observe"].ran[1]
    assert printed(tmp_path / "1", "acl-4791", "observe", lost, rules) == {"ping-works": "fail"}
    assert printed(tmp_path / "2", "acl-4791", "observe", rules) == {"ping-works": "unknown"}
    none = ("leaf1", "nft list ruleset", RULES.format(0), 0)
    assert printed(tmp_path / "3", "acl-4791", "observe", answered, none) == {"only-the-filter-counts-drops": "fail"}
    small, large, passes, links = BLACK_HOLE["observe"].ran
    above = "probes-fail-above-a-size"
    assert printed(tmp_path / "4", "mtu-black-hole", "observe", small, passes, links) == {above: "fail"}
    assert printed(tmp_path / "5", "mtu-black-hole", "observe", pinged(1472, 1), large, links) == {above: "fail"}
    assert printed(tmp_path / "6", "mtu-black-hole", "baseline", small, large) == {above: "fail"}
    alike = ("leaf2", "ip -json link show", json.dumps(LINKS[:1] + LINKS[2:]), 0)
    found = printed(tmp_path / "7", "mtu-black-hole", "observe", small, large, alike)
    assert found == {"one-port-has-a-smaller-mtu": "fail"}


@pytest.mark.parametrize(
    ("phase", "events", "wrong"),
    [
        ("observe", FLAP, ["the-link-flaps", "the-session-flaps"]),
        ("observe", [*FLAP, *FLAP[:2], *FLAP[3:]], ["the-session-flaps"]),
        ("observe", [*FLAP, *FLAP[:-1]], ["the-session-flaps"]),
        ("observe", [*FLAP, FLAP[0], *FLAP[2:]], ["the-link-flaps"]),
        ("observe", [], ["the-link-flaps", "the-session-flaps"]),
        ("verify", FLAP[:1], ["stable-again"]),
        ("verify", [session("Idle")], ["stable-again"]),
    ],
)
def test_links_and_sessions_that_flap_otherwise_fail(
    phase: str, events: list[dict[str, Any]], wrong: list[str], tmp_path: Path
) -> None:
    acts = deepcopy(FLAPPING)
    acts[phase].events = events
    assert failing(tmp_path, "link-flap", acts) == wrong


def test_a_session_that_is_lost_alarms(tmp_path: Path) -> None:
    acts = deepcopy(ONE_PATH)
    acts["observe"].events = [session("Idle")]
    assert failing(tmp_path, "one-path-only", acts) == ["nothing-alarms"]
