"""Windows that show each cause of the table, and such as are like them and do not."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

from lab.diagnose.facts import (
    LinkEvent,
    PortFacts,
    Ran,
    SessionChange,
    Silence,
    StartedTransfer,
    Swept,
    SweptPair,
    WindowFacts,
)
from lab.model.load import read_topology
from lab.scenario import library
from tests.unit.diagnose import made_addresses, made_congestion, made_conservation, made_overlay
from tests.unit.diagnose.jobs import made_jobs
from tests.unit.diagnose.made_facts import (
    ADDRESSES,
    FULL,
    HOSTS,
    PACKETS,
    PEERS,
    QOS,
    Lanes,
    configured,
    facts,
    full,
    incast,
    routes,
    with_lanes,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

STUCK = {"paused": 1.0, "depth": 220_000.0, "deepest": 220_000, "shallowest": 220_000}
STORM: dict[str, dict[str, Any]] = {
    "leaf2:swp6": {**STUCK, "pauses_in": 24},
    "spine1:swp2": {**STUCK, "pauses_in": 12},
    "leaf1:swp1": {**STUCK, "pauses_in": 12},
    "h1:eth1": {**STUCK, "pauses_in": 12},
}
CIRCLE = {port: {**STUCK, "pauses_in": 12} for port in ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")}
WATCHED = configured(*(f"leaf1:swp{number}" for number in (3, 4, 5, 6)), watchdog={"enabled": True})
LOOP = {"pauses_in": 5, "paused": 0.84, "storms": 5, "restored": 4, "drops": {"watchdog": 900}}
"""A pause each 0.4 s, with gaps of 64 ms."""
QUICK = configured("leaf2:swp6", watchdog={"enabled": True, "restoration": 0.01})
DEEP = {"depth": 250_000.0, "deepest": 302_000, "shallowest": 90_000, "spread": 90_000}
TWINS = with_lanes(full("leaf1:swp6", **DEEP, marked=PACKETS // 2), full("leaf2:swp6", **DEEP))
TWINS["leaf2:swp3"] = {"pauses_out": 40, "resumes_out": 40, "rx_bytes": FULL // 2, "rx_packets": PACKETS // 2}
STANDING = {"depth": 43_000.0, "deepest": 48_000, "shallowest": 38_000, "spread": 6_000}
SLOW = {"tx_bytes": FULL // 4, "tx_packets": 1000}
UPLINK = {"tx_bytes": FULL, "tx_packets": PACKETS, "depth": 250_000.0, "deepest": 290_000, "marked": PACKETS}
CROWDED = {"leaf1:swp1": {**DEEP, "tx_bytes": FULL // 4, "tx_packets": PACKETS // 4, "marked": PACKETS // 8}}
"""A link of 25 Mb/s that is full."""
SENDERS = {"leaf1:swp3": {"pauses_out": 50}, "leaf1:swp4": {"pauses_out": 50}}
LINK = {"tx_bytes": 20_000_000, "tx_packets": 5000}
BY_GID = (StartedTransfer("h1:eth1", "h5:eth1", 1, 1),)
RETRIED = {"h1": {"completer_retry_err": 10, "rcvd_seq_err": 10}, "h5": {"out_of_seq_request": 10}}
LAST = {
    "leaf1:swp3": {"rx_packets": 1290, "rx_bytes": 5_360_100},
    "h1:eth1": {"tx_packets": 1290, "tx_bytes": 5_360_100},
}
DEAF = {"leaf2:swp3": {"tx_packets": 1290}, "h5:eth1": {"rx_packets": 1290}}
UNANSWERED = {"h1": {"completer_retry_err": 8}}
MOVED = {
    "leaf1:swp3": {"rx_packets": 16, "rx_bytes": 66_720}, "h1:eth1": {"tx_packets": 16, "tx_bytes": 66_720},
}  # fmt: skip
TRIED = {"h1": {"sent_pkts": 16}, "h5": {"rcvd_pkts": 0}}
QUIET = {"h1": {"completer_retry_err": 0}, "h5": {"out_of_seq_request": 0}}
DOWN = LinkEvent(0.5, "leaf1:swp1", up=False, mtu=9000)
LEAF1 = [port for port in PEERS if port.startswith("leaf1")]
LEAF2 = [port for port in PEERS if port.startswith("leaf2")]
RULE = Ran(1.0, "leaf1", ("nft", "list", "ruleset"), 0, "udp dport 4791 counter packets 1290 bytes 5360100 drop")
DARK = {"leaf1:swp1/6": {"tx_packets": 4}, "leaf1:swp1": {"rx_packets": 4}, "spine1:swp1": {"tx_packets": 4}}
ONCE_A_SECOND = {"leaf1:swp1/6": {"tx_packets": 2}}
"""BFD of a session that is down, in a window of two seconds."""
UNDER_WAY = {"leaf1:swp1/6": {"tx_packets": 1}}
ACTIVE = (SessionChange(-0.1, "spine1:swp1", "Active"),)
LOST = (SessionChange(-0.1, "leaf1:swp2", "Active"),)
PINGS = tuple(
    Ran(1.0, "h5", ("ping", "-M", "do", "-s", size, ADDRESSES["h1"]), code, "")
    for size, code in (("56", 0), ("8952", 1))
)


def _silent(*seconds: float) -> tuple[Silence, ...]:
    return tuple(Silence(each, "leaf1", "bgpd", gone=False) for each in seconds)


def _one_path() -> dict[str, dict[str, tuple[str, ...]]]:
    found = routes()
    found["leaf1"] = {prefix: hops[:1] for prefix, hops in found["leaf1"].items()}
    return found


def without(uplink: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Leaf1 has the ways that are left without one of its uplinks."""
    found = routes()
    found["leaf1"] = {prefix: tuple(set(hops) - {uplink}) for prefix, hops in found["leaf1"].items()}
    return found


def _four_ways(lanes: Lanes) -> WindowFacts:
    """Four spines; an uplink goes down, and h3 gets packets out of sequence."""
    topology = read_topology(library.OWN.parent / "topologies" / "four-spines.yaml")
    peers = {str(end): str(link.other(end)) for link in topology.links for end in link.ends}
    ports = {name: PortFacts(name, peer, name.startswith("h")) for name, peer in peers.items()}
    return replace(facts(lanes, links=(DOWN,), devices={"h3": {"out_of_seq_request": 30}}), ports=ports, qos={})


def _parking_lot(near: int, far: int) -> WindowFacts:
    """h1 is near h4, h5 and h6 are behind the spines."""
    lanes = full("leaf1:swp6", **DEEP, marked=100)
    lanes["leaf1:swp3"] = {"pauses_out": 50}
    for host, count in (("h1", near), ("h5", far), ("h6", far)):
        lanes[f"{host}:eth1"] = {
            "tx_bytes": count,
            "tx_packets": count // 4170,
            "pauses_in": 50,
            "resumes_in": 50,
            "paused": 0.6,
        }
    return facts(lanes, transfers=writing("h1:h4", "h5:h4", "h6:h4"))


def _victim(paused: float) -> WindowFacts:
    """h5 and h6 write to h1, whose link is full; h7 writes to h2, whose link is not."""
    lanes = full("leaf1:swp3", **DEEP, marked=100)
    lanes["leaf1:swp1"] = {"pauses_out": 40, "resumes_out": 40}
    lanes["leaf1:swp4"] = {"tx_bytes": FULL // 6, "tx_packets": PACKETS // 6}
    for host in ("h5", "h6"):
        lanes[f"{host}:eth1"] = {
            "tx_bytes": FULL // 2,
            "tx_packets": PACKETS // 2,
            "pauses_in": 40,
            "resumes_in": 40,
            "paused": 0.5,
        }
    lanes["h7:eth1"] = {
        "tx_bytes": FULL // 6,
        "tx_packets": PACKETS // 6,
        "pauses_in": 40,
        "resumes_in": 40,
        "paused": paused,
    }
    return facts(lanes, transfers=writing("h5:h1", "h6:h1", "h7:h2"))


PFC = QOS["h1"].ports["eth1"].pfc
DEAF_PFC = replace(PFC, rx=False)


def astray(**changes: dict[str, tuple[str, ...]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Routes as they should be, but for these of some switches."""
    return {switch: {**known, **changes.get(switch, {})} for switch, known in routes().items()}


def timed(delay: float) -> tuple[Swept, ...]:
    """Paths from h1 to h5 by each spine, of which the first has this delay."""
    return tuple(
        Swept(
            1.0, ("h1:eth1", f"leaf1:swp{spine}", f"spine{spine}:swp2", "leaf2:swp3"), 61000 + spine, 9000,
            100, 100, 10, 10, slow,
        )
        for spine, slow in ((1, delay), (2, 90e-6))
    )  # fmt: skip


LEAF_OF = {host: PEERS[f"{host}:eth1"].partition(":")[0] for host in HOSTS}


def timed_pairs(late: dict[tuple[str, str], float], hosts: Sequence[str] = HOSTS) -> tuple[SweptPair, ...]:
    """All pairs: 60 us on a leaf, 90 us across, and what is late beside it by sender and receiver: ("h1", "")."""
    found = []
    for src, dst in permutations(hosts, 2):
        delay = 60e-6 if LEAF_OF[src] == LEAF_OF[dst] else 90e-6
        for (sender, receiver), more in late.items():
            if sender in {"", src} and receiver in {"", dst}:
                delay += more
        found.append(SweptPair(1.0, src, dst, 3, 3, delay))
    return tuple(found)


SLOW_NIC = {("h3", ""): 0.005}
CASES: list[tuple[str, str, WindowFacts, WindowFacts]] = [
    ("pfc-storm", "h8:eth1", facts(STORM), facts(with_lanes(STORM, {"leaf2:swp6": {"resumes_in": 24}}))),
    ("link-delay", "leaf1:swp1--spine1:swp1", facts({}, swept=timed(5e-3)), facts({}, swept=timed(200e-6))),
    ("link-delay", f"h3:eth1--{PEERS['h3:eth1']}", facts({}, swept_pairs=timed_pairs(SLOW_NIC)),
     facts({}, swept_pairs=timed_pairs(SLOW_NIC, HOSTS[2:4]))),
    ("pfc-watchdog-missing", "leaf2:swp6", facts(STORM, qos=WATCHED, current=True), facts(STORM, current=True)),
    (
        "pfc-watchdog-missing", "leaf2:swp6",
        facts({**STORM, "leaf1:swp6": {"storms_so_far": 1}}),
        facts(with_lanes({**STORM, "leaf1:swp6": {"storms_so_far": 1}},
                         {"leaf2:swp6": {"drops": {"watchdog": 900}, "shallowest": 0}})),
    ),
    ("pfc-watchdog-missing", "leaf2", facts({}, qos=WATCHED, current=True), facts({}, qos=WATCHED)),
    (
        "pfc-watchdog-loop", "leaf2:swp6",
        facts({"leaf2:swp6": LOOP}, qos=QUICK, current=True), facts({"leaf2:swp6": LOOP}, current=True),
    ),
    (
        "pfc-watchdog-loop", "leaf2:swp6",
        facts({"leaf2:swp6": LOOP}), facts({"leaf2:swp6": {**LOOP, "resumes_in": 5}}),
    ),
    ("pfc-deadlock", "leaf1:swp1", facts(CIRCLE), facts({**CIRCLE, "spine1:swp2": {**STUCK, "tx_packets": 9}})),
    (
        "slow-receiver", "h4:eth1",
        facts({"leaf1:swp6": {**SLOW, "pauses_in": 50, "resumes_in": 50, "paused": 0.5}}),
        facts({"leaf1:swp6": {**SLOW, "pauses_in": 50, "resumes_in": 50, "paused": 0.001}}),
    ),
    (
        "pfc-one-sided", "h1:eth1",
        facts(with_lanes(incast(), {"h1:eth1": {"ignored": 8, "pauses_in": 0, "paused": 0.0},
                                    "leaf1:swp3": {"refused": 900}, "leaf1:swp6": {"drops": {"headroom": 900}}})),
        facts(incast()),
    ),
    (
        "pfc-one-sided", "leaf1:swp3",
        facts(with_lanes(incast(), {"leaf1:swp3": {"refused": 900, "pauses_out": 0}})),
        facts(with_lanes(incast(), {"leaf1:swp3": {"refused": 900}})),
    ),
    (
        "headroom-too-small", "leaf1:swp3",
        facts(with_lanes(incast(), {"leaf1:swp3": {"refused": 20}, "leaf1:swp6": {"drops": {"headroom": 20}}})),
        facts(with_lanes(incast(), {"leaf1:swp3": {"refused": 20}, "h1:eth1": {"ignored": 60}})),
    ),
    (
        "global-pause", "h4:eth1",
        facts({"h4:eth1": {"refused": 100}}, frames={"leaf1:swp6": {"global_pause": 25}}),
        facts({"h4:eth1": {"refused": 100}}),
    ),
    (
        "malformed-pfc", "h4:eth1",
        facts({}, frames={"leaf1:swp6": {"invalid": 12}}),
        facts({"leaf1:swp6": {"pauses_in": 6, "resumes_in": 6}}, frames={"leaf1:swp6": {"pfc": 12}}),
    ),
    ("malformed-pfc", "h4:eth1", facts({}, frames={"leaf1:swp6": {"pfc": 12}}), facts({})),
    (
        "ecn-missing-one-leaf", "leaf2:swp6",
        facts(TWINS, qos=configured("leaf2:swp6", ecn={"enabled": False}), current=True),
        facts(with_lanes(TWINS, {"leaf2:swp6": {"marked": 900}})),
    ),
    (
        "ecn-missing-one-leaf", "leaf2",
        facts({}, qos=configured(*LEAF2, ecn={"enabled": False}), current=True),
        facts({}, current=True),
    ),
    (
        "ecn-above-xoff", "leaf2:swp6",
        facts(TWINS, qos=configured("leaf2:swp6", ecn={"kmin": 500_000, "kmax": 10**6}), current=True),
        facts(TWINS, qos=configured("leaf2:swp6", ecn={"enabled": False}), current=True),
    ),
    (
        "ecn-above-xoff", "leaf2:swp6",
        facts({}, qos=configured("leaf2:swp6", ecn={"kmin": 500_000, "kmax": 10**6}), current=True),
        facts({}, qos=configured("leaf2:swp6", ecn={"kmin": 41_000}), current=True),
    ),
    (
        "ecn-too-low", "leaf2:swp6",
        facts({"leaf2:swp6": {**SLOW, "depth": 20_000.0, "deepest": 25_000, "marked": 800}}),
        facts({"leaf2:swp6": {**SLOW, "depth": 60_000.0, "deepest": 90_000, "marked": 800}}),
    ),
    (
        "ecn-too-low", "leaf2:swp6",
        facts({"leaf2:swp6": {**SLOW, "depth": 30_000.0, "deepest": 35_000, "marked": 800}}),
        facts({"leaf2:swp6": {**SLOW, "depth": 30_000.0, "deepest": 35_000, "marked": 300}}),
    ),
    (
        "ecn-off-by-3kb", "leaf2:swp6",
        facts({"leaf1:swp6": {**SLOW, **STANDING, "marked": 250}, "leaf2:swp6": {**SLOW, **STANDING, "marked": 500}}),
        facts({"leaf1:swp6": {**SLOW, **STANDING, "marked": 250}, "leaf2:swp6": {**SLOW, **STANDING, "marked": 310}}),
    ),
    (
        "ecn-off-by-3kb", "leaf2:swp6",
        facts({}, qos=configured("leaf2:swp6", ecn={"kmin": 37_000, "kmax": 157_000}), current=True),
        facts({}, qos=configured("leaf2:swp6", ecn={"kmin": 37_000, "kmax": 157_000})),
    ),
    (
        "not-ect", "h5:eth1",
        facts(with_lanes(TWINS, {"leaf2:swp6": {"not_ect": 900}}), transfers=writing("h1:h4", "h5:h8", "h6:h8")),
        facts(with_lanes(TWINS, {"leaf2:swp6": {"marked": 900}}), transfers=writing("h1:h4", "h5:h8", "h6:h8")),
    ),
    (
        "dscp-map-mismatch", "spine1",
        facts({"leaf1:swp1": LINK, "spine1:swp1/0": {"rx_packets": 5000}, "spine1:swp2/0": LINK,
               "leaf2:swp1": {"rx_packets": 5000}}),
        facts({"leaf1:swp1": LINK, "spine1:swp1": {"rx_packets": 5000}, "spine1:swp2": LINK,
               "leaf2:swp1": {"rx_packets": 5000}}),
    ),
    (
        "dscp-rewritten", "leaf1:swp1--spine1:swp1",
        facts({"leaf1:swp1": LINK, "spine1:swp1/0": {"rx_packets": 5000}}, current=True),
        facts({"leaf1:swp1": LINK, "spine1:swp1/0": {"rx_packets": 5000}}),
    ),
    (
        "dscp-map-mismatch", "spine1",
        facts({}, qos=configured("spine1:swp1", dscp_to_priority=(0,) * 64), current=True),
        facts({}, current=True),
    ),
    (
        "hash-polarisation", "leaf1",
        facts({"leaf1:swp2": UPLINK}, transfers=writing("h1:h5", qps=32)),
        facts({"leaf1:swp2": UPLINK}, transfers=writing("h1:h5", qps=1)),
    ),
    (
        "elephant-collision", "leaf1:swp1",
        facts({"leaf1:swp1": UPLINK, **SENDERS}, transfers=writing("h1:h5", "h2:h6", qps=1)),
        facts({"leaf1:swp1": UPLINK, "leaf1:swp2": UPLINK, **SENDERS}, transfers=writing("h1:h5", "h2:h6", qps=1)),
    ),
    ("one-path-only", "leaf1", facts({"leaf1:swp1": UPLINK}, routes=_one_path()), facts({"leaf1:swp1": UPLINK})),
    ("one-path-only", "leaf1", facts({}, routes=_one_path()), facts({}, routes=_one_path(), sessions=LOST)),
    (
        "leaf-dies", "leaf1",
        facts({}, links=tuple(replace(DOWN, port=PEERS[port], seconds=0.5) for port in LEAF1)),
        facts({}, links=tuple(replace(DOWN, port=PEERS[port], seconds=0.5) for port in LEAF1[1:])),
    ),
    ("leaf-dies", "leaf1", facts({}, down=frozenset(LEAF1)), facts({}, down=frozenset(LEAF1[:-1]))),
    (
        "power-lost", "spine1",
        facts({}, down=frozenset({"spine1:swp1", "spine1:swp2"})), facts({}, down=frozenset(LEAF1)),
    ),
    (
        "link-down", "leaf1:swp1--spine1:swp1",
        facts({}, links=(DOWN,), bridged=True), facts({}, links=(DOWN,)),
    ),
    (
        "link-flap", "leaf1:swp1--spine1:swp1",
        facts({}, links=(DOWN, replace(DOWN, seconds=1.5, up=True)),
              sessions=(SessionChange(0.6, "leaf1:swp1", "Active"),), devices=RETRIED),
        facts({}, links=(replace(DOWN, up=True),)),
    ),
    (
        "link-flap", "leaf1:swp1--spine1:swp1",
        facts({}, down=frozenset({"leaf1:swp1", "spine1:swp1"})),
        facts({}, down=frozenset({"leaf1:br0"})),
    ),
    (
        "link-cut", "leaf1:swp1--spine1:swp1",
        facts(DARK, sessions=ACTIVE, routes=_one_path()), facts(DARK, routes=_one_path()),
    ),
    (
        "link-cut", "leaf1:swp1--spine1:swp1",
        facts(DARK, sessions=ACTIVE), facts(with_lanes(DARK, {"spine1:swp1": {"rx_packets": 1}}), sessions=ACTIVE),
    ),
    (
        "link-cut", "leaf1:swp1--spine1:swp1",
        facts(DARK, sessions=ACTIVE), facts(DARK, sessions=ACTIVE, down=frozenset({"spine1:swp1"})),
    ),
    (
        "link-cut", "leaf1:swp1--spine1:swp1",
        facts(DARK, routes=without("swp1")), facts(DARK, routes=without("swp2")),
    ),
    (
        "link-cut", "leaf1:swp1--spine1:swp1",
        facts(ONCE_A_SECOND, sessions=ACTIVE), facts(UNDER_WAY, sessions=ACTIVE),
    ),
    (
        "gray-loss", "leaf1:swp1--spine1:swp1",
        facts({"leaf1:swp1": LINK, "spine1:swp1": {"rx_packets": 4980, "rx_bytes": 19_920_000}}, devices=RETRIED),
        facts({"leaf1:swp1": LINK, "spine1:swp1": {"rx_packets": 4980, "rx_bytes": 19_920_000}}, devices=QUIET),
    ),
    (
        "mtu-black-hole", "leaf1:swp1--spine1:swp1",
        facts({"leaf1:swp1": LINK, "spine1:swp1": {"rx_packets": 2000, "rx_bytes": 400_000}}, devices=RETRIED),
        facts({"leaf1:swp1": LINK, "spine1:swp1": {"rx_packets": 4800, "rx_bytes": 19_200_000}}, devices=RETRIED),
    ),
    (
        "mtu-black-hole", "leaf1:swp1--spine1:swp1",
        facts({"leaf1:swp1": LINK}, mtus={"spine1:swp1": 1500}, devices=RETRIED),
        facts({}, mtus={"spine1:swp1": 1500}),
    ),
    (
        "mtu-black-hole", "leaf1:swp1--spine1:swp1",
        facts({}, mtus={**dict.fromkeys(PEERS, 9000), "leaf1:swp1": 1500}),
        facts({}, mtus={**dict.fromkeys(PEERS, 9000), "leaf1:swp3": 1500}),
    ),
    (
        "mtu-black-hole", "leaf1:swp1--spine1:swp1",
        facts({}, mtus={**dict.fromkeys(PEERS, 9200), "leaf1:swp1": 9000, "h2:eth1": 9100}),
        facts({}, mtus={**dict.fromkeys(PEERS, 9000), "leaf1:swp2": 9200, "spine2:swp1": 9200}),
    ),
    (
        "mtu-black-hole", "h1:eth1--leaf1:swp3",
        facts({}, mtus={**dict.fromkeys(PEERS, 9000), "h1:eth1": 1500}, ran=PINGS),
        facts({}, mtus={**dict.fromkeys(PEERS, 9000), "h1:eth1": 1500}, ran=PINGS[:1]),
    ),
    (
        "daemon-killed", "leaf1",
        facts({}, silences=(Silence(0.1, "leaf1", "bgpd", gone=True),), routes=_one_path()),
        facts({}, silences=_silent(0.1)),
    ),
    (
        "daemon-stopped", "leaf1",
        facts({}, silences=_silent(0.0, 1.0, 1.9), routes=_one_path()),
        facts({}, silences=_silent(0.0, 1.9)),
    ),
    (
        "daemon-killed", "leaf1",
        facts({}, silences=(Silence(0.1, "leaf1", "zebra", gone=True),)), facts({}),
    ),
    (
        "link-rate", "leaf1:swp1--spine1:swp1",
        facts({}, qos=configured("leaf1:swp1", "spine1:swp1", rate=25 * 10**6), current=True),
        facts({}, qos=configured("h1:eth1", "leaf1:swp3", rate=25 * 10**6), current=True),
    ),
    (
        "link-rate", "leaf1:swp1--spine1:swp1",
        facts(CROWDED, qos=configured("leaf1:swp1", rate=25 * 10**6), current=True),
        facts(CROWDED, qos=configured("leaf1:swp1", rate=25 * 10**6)),
    ),
    (
        "link-rate", "leaf1:swp2--spine2:swp1",
        facts({}, qos=configured("leaf1:swp2", "spine2:swp1", rate=10**7), current=True),
        facts({}, qos=configured("leaf1:swp1", "leaf1:swp2", "spine1:swp1", "spine2:swp1", rate=10**7), current=True),
    ),
    (
        "link-rate", "h4:eth1--leaf1:swp6",
        facts({"leaf1:swp6": {**DEEP, "tx_bytes": FULL // 5, "marked": 9}},
              qos=configured("leaf1:swp6", "h4:eth1", rate=25 * 10**6), current=True),
        facts({"leaf1:swp6": {**DEEP, "tx_bytes": FULL // 5, "marked": 9}},
              qos=configured("leaf1:swp6", "h4:eth1", rate=25 * 10**6), current=True,
              planned_rates={"leaf1:swp6": 25 * 10**6, "h4:eth1": 25 * 10**6}),
    ),
    (
        "link-rate", "h4:eth1--leaf1:swp6",
        facts({"h4:eth1": {"tx_bytes": FULL // 4}}, qos=configured("h4:eth1", rate=25 * 10**6), current=True),
        facts({"h4:eth1": {"tx_bytes": FULL // 5}}, qos=configured("h4:eth1", rate=25 * 10**6), current=True),
    ),
    (
        "dscp-rewritten", "h1:eth1",
        facts({"h1:eth1/0": {"tx_packets": 500}, "h1:eth1": {"tx_packets": 9}}, devices={"h1": {"sent_pkts": 500}}),
        facts({"h1:eth1/0": {"tx_packets": 500}, "h1:eth1": {"tx_packets": 500}}, devices={"h1": {"sent_pkts": 500}}),
    ),
    (
        "gid-index", "h5:eth1",
        facts(MOVED, transfers=BY_GID, devices=TRIED, readdressed={"h5": 0.1}),
        facts(MOVED, transfers=BY_GID, devices=TRIED),
    ),
    (
        "acl-4791", "leaf1",
        facts(LAST, devices={"h1": {"completer_retry_err": 10}}, ran=(RULE,)),
        facts({**LAST, "leaf1:swp6": {"tx_packets": 1290}, "h4:eth1": {"rx_packets": 1290}}, ran=(RULE,)),
    ),
    (
        "acl-4791", "h5:eth1",
        facts(DEAF, devices={**UNANSWERED, "h5": {"rcvd_pkts": 0}}),
        facts(DEAF, devices={"h1": {"sent_pkts": 1290}, "h5": {"rcvd_pkts": 0}}),
    ),
    ("parking-lot", "leaf1:swp6", _parking_lot(FULL // 2, FULL // 4), _parking_lot(FULL // 3, FULL // 3)),
    ("victim-flow", "h7:eth1", _victim(0.6), _victim(0.05)),
    ("incast", "leaf1:swp6", facts(incast()), facts(full("leaf1:swp6"))),
    (
        "rehash-on-failure", "leaf1:swp1--spine1:swp1",
        _four_ways({"leaf1:swp2": LINK, "leaf1:swp3": LINK}),
        _four_ways({"leaf1:swp1": {"tx_packets": 40}, "leaf1:swp2": LINK, "leaf1:swp3": LINK}),
    ),
    (
        "rehash-on-failure", "leaf1:swp1--spine1:swp1",
        _four_ways({"leaf1:swp2": LINK, "leaf1:swp4": LINK}), _four_ways({"leaf1:swp2": LINK}),
    ),
    (
        "rehash-on-failure", "leaf1:swp1--spine1:swp1",
        _four_ways({"leaf1:swp1": {"rx_packets": 7, "rx_bytes": 7 * 62}, "leaf1:swp2": LINK, "leaf1:swp3": LINK}),
        _four_ways({"leaf1:swp1": {"rx_packets": 7, "rx_bytes": 7 * 1078}, "leaf1:swp2": LINK, "leaf1:swp3": LINK}),
    ),
    (
        "pfc-one-sided", "h1:eth1",
        facts({}, qos=configured("h1:eth1", "h2:eth1", "h3:eth1", pfc=DEAF_PFC), current=True),
        facts({}, qos=configured("h1:eth1", pfc=DEAF_PFC)),
    ),
    (
        "rdma-device-lost", "h5:eth1",
        facts(DEAF, devices=UNANSWERED, without_device={"h5:eth1": 0.0}), facts({}),
    ),
    (
        "routing-loop", "spine1",
        facts({}, routes=astray(spine1={"10.0.0.8/31": ("swp1",)})),
        facts({}, routes=astray(leaf1={"10.0.0.8/31": ("swp1",)})),
    ),
    *made_overlay.CASES,
    *made_addresses.CASES,
    *made_congestion.CASES,
    *made_conservation.CASES,
    *made_jobs.CASES,
]  # fmt: skip
