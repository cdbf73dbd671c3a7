"""Each cause of the table: a window in which it must be named first and where, and one in which it must not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.diagnose.answer import Outcome
from lab.diagnose.causes import CAUSES
from lab.diagnose.engine import diagnose
from lab.diagnose.facts import Facts, LinkChange, PortFacts, Ran, SessionChange, Transfer
from lab.model.load import read_topology
from lab.scenario import library
from tests.unit.diagnose import made_overlay
from tests.unit.diagnose.made_facts import (
    FULL,
    PACKETS,
    PEERS,
    Lanes,
    configured,
    facts,
    first,
    full,
    incast,
    routes,
    with_lanes,
    writing,
)

STUCK = {"paused": 1.0, "depth": 220_000.0, "deepest": 220_000, "shallowest": 220_000}
STORM: dict[str, dict[str, Any]] = {
    "leaf2:swp6": {**STUCK, "pauses_in": 24},
    "spine1:swp2": {**STUCK, "pauses_in": 12},
    "leaf1:swp1": {**STUCK, "pauses_in": 12},
    "h1:eth1": {**STUCK, "pauses_in": 12},
}
CIRCLE = {port: {**STUCK, "pauses_in": 12} for port in ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")}
WATCHED = configured(*(f"leaf1:swp{number}" for number in (3, 4, 5, 6)), watchdog={"enabled": True})
DEEP = {"depth": 250_000.0, "deepest": 302_000, "shallowest": 90_000, "spread": 90_000}
TWINS = with_lanes(full("leaf1:swp6", **DEEP, marked=PACKETS // 2), full("leaf2:swp6", **DEEP))
TWINS["leaf2:swp3"] = {"pauses_out": 40, "resumes_out": 40, "rx_bytes": FULL // 2, "rx_packets": PACKETS // 2}
STANDING = {"depth": 43_000.0, "deepest": 48_000, "shallowest": 38_000, "spread": 6_000}
SLOW = {"tx_bytes": FULL // 4, "tx_packets": 1000}
UPLINK = {"tx_bytes": FULL, "tx_packets": PACKETS, "depth": 250_000.0, "deepest": 290_000, "marked": PACKETS}
SENDERS = {"leaf1:swp3": {"pauses_out": 50}, "leaf1:swp4": {"pauses_out": 50}}
LINK = {"tx_bytes": 20_000_000, "tx_packets": 5000}
RETRIED = {"h1": {"completer_retry_err": 10, "rcvd_seq_err": 10}, "h5": {"out_of_seq_request": 10}}
LAST = {
    "leaf1:swp3": {"rx_packets": 1290, "rx_bytes": 5_360_100},
    "h1:eth1": {"tx_packets": 1290, "tx_bytes": 5_360_100},
}
MOVED = {
    "leaf1:swp3": {"rx_packets": 16, "rx_bytes": 66_720}, "h1:eth1": {"tx_packets": 16, "tx_bytes": 66_720},
}  # fmt: skip
TRIED = {"h1": {"sent_pkts": 16}, "h5": {"rcvd_pkts": 0}}
QUIET = {"h1": {"completer_retry_err": 0}, "h5": {"out_of_seq_request": 0}}
DOWN = LinkChange(0.5, "leaf1:swp1", up=False, mtu=9000)
LEAF2 = [port for port in PEERS if port.startswith("leaf2")]
RULE = Ran(1.0, "leaf1", ("nft", "list", "ruleset"), 0, "udp dport 4791 counter packets 1290 bytes 5360100 drop")


def _one_path() -> dict[str, dict[str, tuple[str, ...]]]:
    found = routes()
    found["leaf1"] = {prefix: hops[:1] for prefix, hops in found["leaf1"].items()}
    return found


def _four_ways(lanes: Lanes) -> Facts:
    """Four spines; an uplink goes down, and h3 gets packets out of sequence."""
    topology = read_topology(library.OWN.parent / "topologies" / "four-spines.yaml")
    peers = {str(end): str(link.other(end)) for link in topology.links for end in link.ends}
    ports = {name: PortFacts(name, peer, name.startswith("h")) for name, peer in peers.items()}
    return replace(facts(lanes, links=(DOWN,), devices={"h3": {"out_of_seq_request": 30}}), ports=ports, qos={})


def _parking_lot(near: int, far: int) -> Facts:
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


def _victim(paused: float) -> Facts:
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


NAMED: list[tuple[str, str, Facts, Facts]] = [
    ("pfc-storm", "h8:eth1", facts(STORM), facts(with_lanes(STORM, {"leaf2:swp6": {"resumes_in": 24}}))),
    ("pfc-watchdog-missing", "leaf2:swp6", facts(STORM, qos=WATCHED, current=True), facts(STORM, current=True)),
    (
        "pfc-watchdog-missing", "leaf2:swp6",
        facts({**STORM, "leaf1:swp6": {"storms_so_far": 1}}),
        facts(with_lanes({**STORM, "leaf1:swp6": {"storms_so_far": 1}},
                         {"leaf2:swp6": {"drops": {"watchdog": 900}, "shallowest": 0}})),
    ),
    ("pfc-watchdog-missing", "leaf2", facts({}, qos=WATCHED, current=True), facts({}, qos=WATCHED)),
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
        "gid-index", "h5:eth1",
        facts(MOVED, transfers=(Transfer("h1", "h5", 1, 1),), devices=TRIED, readdressed={"h5": 0.1}),
        facts(MOVED, transfers=(Transfer("h1", "h5", 1, 1),), devices=TRIED),
    ),
    (
        "acl-4791", "leaf1",
        facts(LAST, devices={"h1": {"completer_retry_err": 10}}, ran=(RULE,)),
        facts({**LAST, "leaf1:swp6": {"tx_packets": 1290}, "h4:eth1": {"rx_packets": 1290}}, ran=(RULE,)),
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
    *made_overlay.CASES,
]  # fmt: skip


@pytest.mark.parametrize(("cause", "place", "there", "_"), NAMED)
def test_it_is_named_first_and_where(cause: str, place: str, there: Facts, _: Facts) -> None:
    found, places = first(there)
    assert (found, places[0]) == (cause, place)


@pytest.mark.parametrize(("cause", "_", "__", "absent"), NAMED)
def test_it_is_not_named_where_it_is_not(cause: str, _: str, __: Facts, absent: Facts) -> None:
    assert cause not in [each.cause for each in diagnose(absent).causes]


def test_every_row_is_tried() -> None:
    """A row that no window of these shows could be wrong, and nobody would know."""
    shown = {(each.cause, each.title) for _, _, there, _ in NAMED for each in diagnose(there).causes}
    assert shown == {(cause.name, cause.title) for cause in CAUSES}


def test_causes_have_the_names_of_scenarios() -> None:
    assert {cause.name for cause in CAUSES} == set(library.names())


def test_rivals_are_causes() -> None:
    assert {cause.rival for cause in CAUSES} <= {"", *(cause.name for cause in CAUSES)}


@pytest.mark.parametrize(("_", "__", "there", "___"), NAMED)
def test_an_answer_has_evidence_and_leaves_no_blank(_: str, __: str, there: Facts, ___: Facts) -> None:
    for each in diagnose(there).causes:
        assert each.evidence
        assert "{" not in each.tell + each.fix
        assert 0 < each.confidence <= 0.99


def test_capacity_is_no_fault() -> None:
    assert diagnose(facts(incast())).outcome is Outcome.CAPACITY


def test_nothing_is_healthy() -> None:
    assert diagnose(facts({})).outcome is Outcome.HEALTHY
    assert diagnose(facts(full("leaf1:swp6"))).outcome is Outcome.HEALTHY


def test_losses_without_a_cause_are_unknown() -> None:
    found = diagnose(facts({}, devices={"h1": {"completer_retry_err": 30}}))
    assert (found.outcome, found.causes) == (Outcome.UNKNOWN, ())
    assert found.unexplained[0].of == "h1"


def test_a_window_that_is_too_short_is_unknown() -> None:
    found = diagnose(replace(facts(STORM), end=0.1))
    assert found.outcome is Outcome.UNKNOWN
    assert "0.10 s" in found.missing[0]


def test_two_faults_are_two_answers() -> None:
    """A storm at one leaf, and loss on a link of the other."""
    lossy = {
        "spine2:swp1": {"tx_packets": 5000, "tx_bytes": 20_000_000},
        "leaf1:swp2": {"rx_packets": 4950},
        "leaf1:swp6": {"tx_packets": 4950},
        "h4:eth1": {"rx_packets": 4950},
    }
    found = diagnose(facts({**STORM, **lossy}, devices=RETRIED))
    assert {(each.cause, each.places[0]) for each in found.causes} == {
        ("pfc-storm", "h8:eth1"), ("gray-loss", "spine2:swp1--leaf1:swp2"),
    }  # fmt: skip


def test_what_a_storm_does_is_no_answer_of_its_own() -> None:
    found = diagnose(facts({**STORM, **incast()}))
    assert [each.cause for each in found.causes] == ["pfc-storm"]


def test_without_the_configuration_two_causes_are_as_likely() -> None:
    """No profile, or a Kmin that is never reached: counters do not tell, and nobody says that they do."""
    found = diagnose(facts(TWINS))
    assert {each.cause: each.confidence for each in found.causes if each.fault} == {
        "ecn-missing-one-leaf": 0.45, "ecn-above-xoff": 0.45,
    }  # fmt: skip
    assert "qos show leaf2:swp6" in found.causes[0].tell


@pytest.mark.parametrize("lacks", [{"devices": {}}, {"ran": ()}, {"transfers": ()}, {"qos": {}, "current": False}])
@pytest.mark.parametrize("there", [there for _, _, there, _ in NAMED])
def test_with_fewer_facts_it_is_the_same_or_more_modest(there: Facts, lacks: dict[str, Any]) -> None:
    """Never another fault with more confidence than there was."""
    sure = {each.cause: each.confidence for each in diagnose(there).causes}
    for each in diagnose(replace(there, **lacks)).causes:
        if each.fault:
            assert each.confidence <= max(sure.get(each.cause, 0.0), 0.6), (each.cause, each.places)


def test_queues_that_are_paused_or_full_are_not_compared() -> None:
    """What was marked before is not marked again, and what stands still because it is paused marks as it came."""
    one, other = {**SLOW, **STANDING, "marked": 250}, {**SLOW, **STANDING, "marked": 500}
    for besides in ({"paused": 0.5}, {"depth": 280_000.0, "deepest": 282_000}):
        found = diagnose(facts({"leaf1:swp6": {**one, **besides}, "leaf2:swp6": {**other, **besides}}))
        assert found.outcome is Outcome.HEALTHY


def test_what_is_in_a_long_cable_is_no_loss_where_a_port_drops() -> None:
    """Drops are why packets are sent again; those few are under way."""
    lanes: Lanes = {"h1:eth1": {"tx_packets": 2000}, "leaf1:swp3": {"rx_packets": 1993}}
    lanes |= {"leaf1:swp6": {"tx_packets": 1980, "drops": {"headroom": 13}}, "h4:eth1": {"rx_packets": 1980}}
    found = diagnose(facts(lanes, devices={"h1": {"completer_retry_err": 13}}))
    assert "gray-loss" not in [each.cause for each in found.causes]


def test_what_was_marked_before_is_not_missed() -> None:
    """A spine's queue is deep and marks nothing, because leaf2 has marked all that comes."""
    lanes = full("spine1:swp1", **DEEP)
    lanes |= full("leaf2:swp1", **DEEP, marked=PACKETS)
    lanes["spine1:swp2"] = {"rx_bytes": FULL, "rx_packets": PACKETS, "pauses_out": 50}
    assert not [each for each in diagnose(facts(lanes)).causes if each.fault]
    lanes["leaf2:swp1"]["marked"] = 0
    assert [each for each in diagnose(facts(lanes)).causes if each.fault]


def test_frames_of_a_program_are_no_loss() -> None:
    """What a program sends through a NIC it counts as sent, and the port that gets it takes it for control."""
    lanes = {"h4:eth1/0": {"tx_packets": 40, "tx_bytes": 2400}}
    found = diagnose(facts(lanes, frames={"leaf1:swp6": {"invalid": 40}}))
    assert [each.cause for each in found.causes] == ["malformed-pfc"]
