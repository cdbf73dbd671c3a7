"""Each cause of the table: a window in which it must be named first and where, and one in which it must not be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.causes.cause_table import CAUSES
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.facts import PortFacts
from lab.diagnose.symptom import Evidence
from lab.diagnose.symptoms import overlay_symptoms
from lab.faults.catalogue import KINDS
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
    with_lanes,
    writing,
)
from tests.unit.diagnose.made_windows import (
    ACTIVE,
    CASES,
    CROWDED,
    DARK,
    DEEP,
    PFC,
    RETRIED,
    SLOW,
    STANDING,
    STORM,
    TWINS,
    without,
)

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts


@pytest.mark.parametrize(("cause", "place", "there", "_"), CASES)
def test_it_is_named_first_and_where(cause: str, place: str, there: WindowFacts, _: WindowFacts) -> None:
    found, places = first(there)
    assert (found, places[0]) == (cause, place)


def test_leaves_that_flood_to_one_group_flood_to_each_other_and_those_of_two_do_not() -> None:
    assert diagnose(made_overlay.grouped("239.1.1.10", "239.1.1.10")).outcome is DiagnosisOutcome.HEALTHY
    apart = made_overlay.grouped("239.1.1.10", "239.1.1.11")
    assert {sign.place for sign in overlay_symptoms.is_not_flooded_to(apart)} == {"leaf1", "leaf2"}
    assert diagnose(apart).outcome is DiagnosisOutcome.UNKNOWN


def test_what_is_known_in_two_ways_is_no_rival_of_its_own() -> None:
    (cut,) = diagnose(facts(DARK, sessions=ACTIVE, routes=without("swp1"))).causes
    assert (cut.cause, cut.confidence) == ("link-cut", 0.9)


@pytest.mark.parametrize(("cause", "_", "__", "absent"), CASES)
def test_it_is_not_named_where_it_is_not(cause: str, _: str, __: WindowFacts, absent: WindowFacts) -> None:
    assert cause not in [each.cause for each in diagnose(absent).causes]


@pytest.mark.parametrize(("_", "__", "there", "___"), CASES)
def test_a_lost_session_is_listed_once(_: str, __: str, there: WindowFacts, ___: WindowFacts) -> None:
    """Symptoms of links and of sessions both have it as evidence."""
    for cause in diagnose(there).causes:
        lost = [(each.of, each.source, each.at) for each in cause.evidence if " became " in each.says]
        assert len(lost) == len(set(lost))


def test_every_row_is_tried() -> None:
    """A row that no window of these shows could be wrong, and nobody would know."""
    shown = {(each.cause, each.title) for _, _, there, _ in CASES for each in diagnose(there).causes}
    assert shown == {(cause.name, cause.title) for cause in CAUSES}


def test_causes_have_the_names_of_scenarios_and_without_one_of_faults() -> None:
    """If two scenarios show one cause, one has its name. A link that is down is called so in every fabric.

    Published results have no fault, and so no cause.
    """
    names = {cause.name for cause in CAUSES}
    published = {name for name in library.names() if library.find(name).answer is None}
    assert published == {name for name in library.names() if name.startswith(("paper-", "sonic-"))}
    assert set(library.names()) - published - names == {
        "slow-rail", "vlan-stp-blocked", "one-slow-link-slows-all", "link-loss-mid-step",
        "checkpoint-hits-training", "ecmp-collision-of-rings", "kv-cache-beside-allreduce",
        "pfc-storm-stalls-every-job", "ring-against-tree", "ecn-off-by-3kb-256",
    }  # fmt: skip
    fallbacks = {cause.name for cause in CAUSES if cause.fallback}
    assert names - fallbacks - set(library.names()) <= set(KINDS)


def test_rivals_are_causes() -> None:
    assert {cause.rival for cause in CAUSES} <= {"", *(cause.name for cause in CAUSES)}


@pytest.mark.parametrize(("_", "__", "there", "___"), CASES)
def test_an_answer_has_evidence_and_leaves_no_blank(_: str, __: str, there: WindowFacts, ___: WindowFacts) -> None:
    for each in diagnose(there).causes:
        assert each.evidence
        assert "{" not in each.tell + each.fix
        assert 0 < each.confidence <= 0.99


def test_capacity_is_no_fault() -> None:
    assert diagnose(facts(incast())).outcome is DiagnosisOutcome.CAPACITY


def shared(**queue: Any) -> Lanes:
    """h1 and h2 write to h4 and are paused; best effort of h3 takes three quarters of h4's link."""
    lanes = {port: lane for port, lane in incast().items() if port not in {"h3:eth1", "leaf1:swp5"}}
    lossless, bulk = FULL // 4, FULL * 3 // 4
    sent = {"h1:eth1": lossless // 2, "h2:eth1": lossless // 2, "h3:eth1/0": bulk, "leaf1:swp6": lossless}
    got = {"leaf1:swp3": lossless // 2, "leaf1:swp4": lossless // 2, "leaf1:swp5/0": bulk, "h4:eth1": lossless}
    for way, counts in (("tx", {**sent, "leaf1:swp6/0": bulk}), ("rx", {**got, "h4:eth1/0": bulk})):
        frames = {port: {f"{way}_bytes": n, f"{way}_packets": n // 4170} for port, n in counts.items()}
        lanes = with_lanes(lanes, frames)
    return with_lanes(lanes, {"leaf1:swp6": queue, "leaf1:swp6/0": {"depth": 340_000.0}})


SHORT: Final = {"marked": 0, "depth": 20_000.0, "deepest": 30_000}
"""A queue below Kmin, in which no packet is marked."""


@pytest.mark.parametrize("queue", [{}, {"shallowest": 0}, {**SHORT, "shallowest": 9_000}])
def test_a_link_that_several_priorities_fill_is_capacity(queue: dict[str, Any]) -> None:
    """Its queues share it: none of them sends 90% of its rate, but senders are paused all the same."""
    found = diagnose(facts(shared(**queue)))
    assert found.outcome is DiagnosisOutcome.CAPACITY
    (cause,) = found.causes
    assert (cause.cause, cause.places) == ("incast", ("leaf1:swp6",))
    assert [each.value for each in cause.evidence] == [0.245, 0.98, queue.get("depth", 250_000.0)]


def test_a_full_link_does_not_limit_a_queue_that_is_empty_at_times_and_marks_nothing() -> None:
    assert diagnose(facts(shared(**SHORT, shallowest=0))).causes == ()


def test_a_full_link_that_is_slower_than_its_siblings_is_no_capacity() -> None:
    slow = facts(CROWDED, qos=configured("leaf1:swp1", "spine1:swp1", rate=25 * 10**6))
    assert diagnose(slow).outcome is DiagnosisOutcome.CAPACITY
    assert [each.cause for each in diagnose(replace(slow, current=True)).causes] == ["link-rate"]


def test_several_slow_links_of_hosts_are_a_limit_that_was_set() -> None:
    """One alone came up slowly. Two may have been limited for a purpose."""
    ends = ("leaf1:swp6", "h4:eth1"), ("leaf2:swp6", "h8:eth1")
    full = {"leaf1:swp6": {"tx_bytes": FULL // 4, "depth": 200_000.0, "marked": 9}}
    one, two = (
        facts(full, qos=configured(*slow, rate=25 * 10**6), current=True) for slow in (ends[0], ends[0] + ends[1])
    )
    assert [each.cause for each in diagnose(one).causes if each.fault] == ["link-rate"]
    assert [each.cause for each in diagnose(two).causes if each.fault] == []


def test_nothing_is_healthy() -> None:
    assert diagnose(facts({})).outcome is DiagnosisOutcome.HEALTHY
    assert diagnose(facts(full("leaf1:swp6"))).outcome is DiagnosisOutcome.HEALTHY


def test_losses_without_a_cause_are_unknown() -> None:
    found = diagnose(facts({}, devices={"h1": {"completer_retry_err": 30}}))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert found.unexplained[0].of == "h1:eth1"


def test_a_window_that_is_too_short_is_unknown() -> None:
    found = diagnose(replace(facts(STORM), end=0.1))
    assert found.outcome is DiagnosisOutcome.UNKNOWN
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


@pytest.mark.parametrize(("current", "sure"), [(False, 0.45), (True, 0.25)])
def test_without_another_configuration_two_causes_are_as_likely(current: bool, sure: float) -> None:
    """No profile, or a Kmin that is never reached. Both are unlikely if neither is configured."""
    found = diagnose(facts(TWINS, current=current))
    assert {each.cause: each.confidence for each in found.causes if each.fault} == {
        "ecn-missing-one-leaf": sure, "ecn-above-xoff": sure,
    }  # fmt: skip
    assert "qos show leaf2:swp6" in found.causes[0].tell


@pytest.mark.parametrize("lacks", [{"devices": {}}, {"ran": ()}, {"transfers": ()}, {"qos": {}, "current": False}])
@pytest.mark.parametrize("there", [there for _, _, there, _ in CASES])
def test_with_fewer_facts_it_is_the_same_or_more_modest(there: WindowFacts, lacks: dict[str, Any]) -> None:
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
        assert found.outcome is DiagnosisOutcome.HEALTHY


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


def test_a_tunnel_behind_links_that_had_gone_before_is_not_unreachable_for_another_reason() -> None:
    """The window has no event of them: what had gone before it began is down all the time."""
    ends = [end for link in made_overlay.DOWN for end in (link.port, made_overlay.PEERS[link.port])]
    found = diagnose(made_overlay.facts(routes=made_overlay.without("leaf3"), down=frozenset(ends)))
    assert [cause.cause for cause in found.causes] == ["link-flap"]


@pytest.mark.parametrize(
    ("ports", "changes", "places"),
    [
        (("h1:eth1", "h2:eth1", "h3:eth1"), {"rx": False}, ("h1:eth1", "h2:eth1", "h3:eth1")),
        (("leaf1:swp1",), {"rx": False}, ("leaf1:swp1",)),
        (("spine2:swp1",), {"tx": False}, ("spine2:swp1",)),
        (("leaf2:swp1", "leaf2:swp2"), {"priorities": 1 << 4}, ("leaf2:swp1", "leaf2:swp2")),
        (("h4:eth1",), {"priorities": 0}, ("h4:eth1",)),
    ],
    ids=["three hosts", "a leaf", "asks nobody", "another priority", "none"],
)
def test_pfc_at_one_end_alone_is_seen_where_nobody_sends(
    ports: tuple[str, ...], changes: dict[str, Any], places: tuple[str, ...]
) -> None:
    odd = configured(*ports, pfc=replace(PFC, **changes))
    found = diagnose(facts({}, qos=odd, current=True))
    assert (found.outcome, [each.cause for each in found.causes]) == (DiagnosisOutcome.FAULT, ["pfc-one-sided"])
    assert found.causes[0].places == places
    assert diagnose(facts({}, qos=configured(*PEERS, pfc=replace(PFC, priorities=1 << 4)), current=True)).causes == ()


def test_link_pause_in_place_of_pfc_is_no_second_fault() -> None:
    made = facts({}, qos=configured("h4:eth1", pfc=replace(PFC, tx=False)), current=True,
                 frames={"leaf1:swp6": {"global_pause": 40}})  # fmt: skip
    assert [each.cause for each in diagnose(made).causes] == ["global-pause"]


@pytest.mark.parametrize(
    ("source", "value", "figure"),
    [
        ("tx_prio3_bytes", 49_781_000, "49.78 MB"), ("tx_prio3_bytes", 62, "62"),
        ("rcvd_pkts", 12_345_678, "12345678"), ("rx_prio3_pause_duration", 0.984, "0.984"),
        ("queue3_ecn_marked", 0.0, "0"), ("qos pfc.watchdog.restoration", 0.02, "0.02"), ("x", 1234.5, "1234.5"),
    ],
)  # fmt: skip
def test_figures_are_written_as_people_write_them(source: str, value: float, figure: str) -> None:
    assert Evidence("of it", "leaf1:swp1", source, value, 1.0).figure == figure


def test_what_would_show_the_same_figures_is_one_cause_of_two() -> None:
    """Without the configuration nobody knows why a queue does not mark."""
    there = next(there for cause, _, there, _ in CASES if cause == "ecn-above-xoff")
    found = diagnose(replace(there, current=False)).causes
    causes = {each.cause: each.alternatives for each in found if each.fault}
    assert causes == {"ecn-missing-one-leaf": ("ecn-above-xoff",), "ecn-above-xoff": ("ecn-missing-one-leaf",)}
    for _, _, there, _ in CASES:
        assert not [each for each in diagnose(there).causes if each.confidence > 0.9 and each.alternatives]


def sharing(share: float, *, marked: int = 0, swp4: float = 0.5) -> Lanes:
    """Two hosts send by one uplink, which carries this share of its rate; nothing is paused or dropped."""
    sent, packets = int(FULL * share), int(PACKETS * share)
    uplink = {"tx_bytes": sent, "tx_packets": packets, "depth": 30_000.0, "deepest": 60_000, "marked": marked}
    far = {"rx_bytes": sent, "rx_packets": packets}
    lanes: Lanes = {"leaf1:swp1": uplink, "spine1:swp1": far}
    lanes["spine1:swp2"] = {"tx_bytes": sent, "tx_packets": packets}
    lanes["leaf2:swp1"] = far
    for near, host, peer, part in (("swp3", "h1", "h5", 1 - swp4), ("swp4", "h2", "h6", swp4)):
        moved = int(sent * part), int(packets * part)
        lanes[f"leaf1:{near}"] = lanes[f"{peer}:eth1"] = dict(zip(("rx_bytes", "rx_packets"), moved, strict=True))
        lanes[f"leaf2:{near}"] = lanes[f"{host}:eth1"] = dict(zip(("tx_bytes", "tx_packets"), moved, strict=True))
    return lanes


@pytest.mark.parametrize("marked", [0, PACKETS // 10])
def test_two_flows_on_one_uplink_are_a_collision_without_any_pause(marked: int) -> None:
    """Congestion control slows both down before anything is paused: each has half of what it could have."""
    pairs = writing("h1:h5", "h2:h6", qps=1)
    assert first(facts(sharing(1.0, marked=marked), transfers=pairs)) == ("elephant-collision", ("leaf1:swp1",))


def test_flows_that_share_an_uplink_with_room_for_both_do_not_collide() -> None:
    pairs = writing("h1:h5", "h2:h6", qps=1)
    assert diagnose(facts(sharing(0.8), transfers=pairs)).outcome is DiagnosisOutcome.HEALTHY


def test_one_flow_that_fills_an_uplink_does_not_collide_with_a_few_packets() -> None:
    pairs = writing("h1:h5", "h2:h6", qps=1)
    assert diagnose(facts(sharing(1.0, swp4=0.01), transfers=pairs)).outcome is DiagnosisOutcome.HEALTHY


@pytest.mark.parametrize(
    ("values", "sources"),
    [
        ({"kmax": 120_000}, ["qos ecn.kmax"]),
        ({"kmax": 400_000}, ["qos ecn.kmax"]),
        ({"pmax": 0.2}, ["qos ecn.pmax"]),
        ({"kmin": 37_000, "pmax": 0.5}, ["qos ecn.kmin", "qos ecn.pmax"]),
    ],
)
def test_each_value_of_a_marking_curve_is_compared(values: dict[str, float], sources: list[str]) -> None:
    """The configuration alone shows it, before anything has marked."""
    (found,) = diagnose(facts({}, qos=configured("leaf2:swp6", ecn=values), current=True)).causes
    assert (found.cause, found.places) == ("ecn-off-by-3kb", ("leaf2:swp6",))
    assert [line.source for line in found.evidence] == sources
    assert all("where siblings have" in line.says for line in found.evidence)


@pytest.mark.parametrize(
    ("watched", "changed", "place", "confidence"),
    [
        ("leaf1", (), "leaf2", 0.6),
        ("leaf1", ("leaf2:swp3",), "leaf2", 0.85),
        ("leaf1", ("leaf1:swp3",), "leaf1", 0.85),
        ("leaf1", ("leaf1:swp3", "leaf2:swp3"), "leaf2", 0.6),
        ("leaf1 leaf2", (), "", 0.0),
    ],
)
def test_of_two_leaves_the_one_that_was_configured_has_the_wrong_watchdog(
    watched: str, changed: tuple[str, ...], place: str, confidence: float
) -> None:
    ports = [port for leaf in watched.split() for port in PEERS if port.startswith(leaf)]
    there = facts({}, qos=configured(*ports, watchdog={"enabled": True}), current=True)
    found = diagnose(replace(there, switched_watchdogs=frozenset(changed))).causes
    expected = [("pfc-watchdog-missing", (place,), confidence)] * bool(place)
    assert [(each.cause, each.places, each.confidence) for each in found] == expected


def test_the_only_leaf_of_three_with_a_watchdog_is_the_odd_one() -> None:
    more = {
        f"leaf3:swp{number}": PortFacts(f"leaf3:swp{number}", f"h{number}x:eth1", host=False) for number in (3, 4)
    }
    hosts = {each.peer: PortFacts(each.peer, each.name, host=True) for each in more.values()}
    there = facts(
        {}, qos=configured(*(port for port in PEERS if port.startswith("leaf1")), watchdog={"enabled": True})
    )
    qos = {**there.qos, "leaf3": there.qos["leaf2"]}
    there = replace(there, ports={**there.ports, **more, **hosts}, qos=qos, current=True)
    (found,) = diagnose(there).causes
    assert (found.places, found.confidence) == (("leaf1",), 0.85)
    assert found.evidence[0].says == "its host ports have a PFC watchdog; those of leaf2, leaf3 have none"
