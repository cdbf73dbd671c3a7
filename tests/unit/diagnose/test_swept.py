"""What a sweep over paths shows where nobody else sends, and that of a healthy one it shows nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.facts import GaveUp, Ran, Swept, SweptPair
from lab.diagnose.symptoms import host_symptoms, path_delays, probes
from tests.unit.diagnose.made_facts import ADDRESSES, PEERS, Lanes, facts, first

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts

QUIET = {"h1": {"completer_retry_err": 0}}
THERE, BACK = ("leaf1", "leaf2"), ("leaf2", "leaf1")


def path(leaves: tuple[str, str], spine: int) -> Swept:
    """A path of incast by a spine, on which all comes."""
    src, dst = leaves
    hosts = {"leaf1": "h1", "leaf2": "h5"}
    ports = (f"{hosts[src]}:eth1", f"{src}:swp{spine}", f"spine{spine}:swp{dst[-1]}", f"{dst}:swp3")
    return Swept(1.0, ports, 61000 + spine, 9000, 100, 100, 10, 10)


ALL = [path(leaves, spine) for leaves in (THERE, BACK) for spine in (1, 2)]


def swept(*others: Swept, lanes: Lanes | None = None) -> WindowFacts:
    """All paths, with these instead of those of the same ports."""
    instead = {each.path: each for each in others}
    return facts(lanes or {}, devices=QUIET, swept=tuple(instead.get(each.path, each) for each in ALL))


def link(came: int, octets: int) -> Lanes:
    """What left h1 by spine1, all the way; so much of it came from leaf1 to spine1."""
    whole, rest = (110, 101_000), (came, octets)
    left = {"h1:eth1": whole, "leaf1:swp1": whole, "spine1:swp2": rest, "leaf2:swp3": rest}
    lanes: Lanes = {port: {"tx_packets": packets, "tx_bytes": size} for port, (packets, size) in left.items()}
    for port, sent in left.items():
        packets, size = rest if port == "leaf1:swp1" else sent
        lanes[PEERS[port]] = {"rx_packets": packets, "rx_bytes": size}
    return lanes


def delayed(*slow: tuple[tuple[str, str], int], direct: float = 90e-6) -> WindowFacts:
    """All paths, of which these take 5 ms longer."""
    return swept(
        *(
            replace(path(leaves, spine), delay=direct + 0.005 * ((leaves, spine) in slow))
            for leaves in (THERE, BACK)
            for spine in (1, 2)
        )
    )


def places(signs: object) -> list[str]:
    return [sign.place for sign in signs]  # type: ignore[attr-defined]


def test_paths_of_the_fabric_are_paths() -> None:
    for each in ALL:
        for port, onward in zip(each.path, each.path[1:], strict=False):
            assert PEERS[port].partition(":")[0] == onward.partition(":")[0]


def test_where_all_comes_nothing_is_wrong() -> None:
    found = diagnose(swept(lanes=link(110, 101_000)))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.HEALTHY, ())
    for symptom in (probes.only_small_probes_pass, probes.some_probes_vanish, probes.no_probe_passes):
        assert list(symptom(swept())) == []


def test_a_black_hole_is_on_the_link_that_counts_it() -> None:
    hole = replace(path(THERE, 1), large_came=0)
    assert first(swept(hole, lanes=link(100, 11_000))) == ("mtu-black-hole", ("leaf1:swp1--spine1:swp1",))
    assert first(swept(lanes=link(100, 11_000)))[0] == DiagnosisOutcome.HEALTHY.value


def test_links_that_other_paths_use_are_not_suspected() -> None:
    hole = replace(path(THERE, 1), large_came=0)
    found = places(probes.only_small_probes_pass(swept(hole)))
    assert found == ["leaf1:swp1--spine1:swp1", "spine1:swp2--leaf2:swp1"]


def test_an_mtu_that_differs_is_surer_where_a_sweep_was_stopped_by_it() -> None:
    mtus = {**dict.fromkeys(PEERS, 9000), "leaf1:swp1": 1500}
    hole = replace(path(THERE, 1), large_came=0)
    alone, both = (diagnose(replace(swept(*other), mtus=mtus)).causes[0] for other in ([], [hole]))
    assert alone.cause == both.cause == "mtu-black-hole"
    assert alone.confidence < both.confidence
    assert "0 of 10 of 9000 octets" in " ".join(each.says for each in both.evidence)


def test_loss_is_on_the_link_that_counts_it() -> None:
    lossy = replace(path(THERE, 1), came=91, large_came=9)
    assert first(swept(lossy, lanes=link(100, 92_000))) == ("gray-loss", ("leaf1:swp1--spine1:swp1",))
    assert places(probes.only_small_probes_pass(swept(lossy))) == []


def test_a_filter_is_at_the_switch_that_lets_nothing_out() -> None:
    gone = [replace(path(leaves, 1), came=0, large_came=0) for leaves in (THERE, BACK)]
    lanes = {"spine1:swp1": {"rx_packets": 110}, "spine1:swp2": {"rx_packets": 110}}
    assert places(probes.no_probe_passes(swept(*gone))) == ["spine1"]
    assert first(swept(*gone, lanes=lanes)) == ("acl-4791", ("spine1",))


def test_a_filter_of_a_host_is_at_the_host_that_takes_nothing_in_and_lets_nothing_out() -> None:
    """What the sweep sent there is for no device, and what its kernel does not let go is for nobody."""
    mute = [replace(path(BACK, spine), sent=0, came=0, large_sent=0, large_came=0) for spine in (1, 2)]
    assert places(host_symptoms.no_probe_leaves(swept(*mute))) == ["h5:eth1"]
    assert places(host_symptoms.no_probe_leaves(swept(mute[0]))) == []
    late = {"h1": {"completer_retry_err": 8}, "h5": {"rcvd_pkts": 0}}
    rule = Ran(1.0, "h5", ("nft", "list", "ruleset"), 0, "udp dport 4791 counter packets 12 bytes 960 drop")
    for came, confidence in ((227, None), (228, 0.6)):
        there = replace(swept(*mute[1:], lanes={"h5:eth1": {"rx_packets": came}}), devices=late)
        assert [each.confidence for each in diagnose(there).causes] == [confidence] * (confidence is not None)
    there = replace(swept(*mute, lanes={"h5:eth1": {"rx_packets": 240}}), devices=late, ran=(rule,))
    found = diagnose(there).causes[0]
    assert (found.cause, found.places, found.confidence) == ("acl-4791", ("h5",), 0.99)


def test_a_host_of_which_counters_are_not_known_is_not_called_deaf() -> None:
    deaf = swept(lanes={"h5:eth1": {"rx_packets": 900}})
    gave_up = (GaveUp(1.0, "h1:h5", "the QP broke"),)
    assert places(host_symptoms.a_host_takes_nothing_in(replace(deaf, gave_up=gave_up))) == []
    known = replace(deaf, gave_up=gave_up, devices={"h5": {"rcvd_pkts": 0}})
    assert places(host_symptoms.a_host_takes_nothing_in(known)) == ["h5"]
    some = replace(known, devices={"h5": {"rcvd_pkts": 1}})
    assert places(host_symptoms.a_host_takes_nothing_in(some)) == []


def test_a_fabric_on_which_work_gives_up_is_not_called_healthy() -> None:
    found = diagnose(replace(swept(), gave_up=(GaveUp(1.5, "h1:h5", "WR flush\n the QP broke\n"),)))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert [(each.says, each.of, each.at) for each in found.unexplained] == [("gave up: the QP broke", "h1:h5", 1.5)]


def test_a_hosts_mtu_is_a_fault_where_a_sweep_was_stopped_by_it() -> None:
    mtus = {**dict.fromkeys(PEERS, 9000), "h1:eth1": 1500, "leaf1:swp3": 1500}
    stopped = [replace(path(BACK, spine), large_came=0) for spine in (1, 2)]
    assert first(replace(swept(*stopped), mtus=mtus)) == ("mtu-black-hole", ("h1:eth1--leaf1:swp3",))
    assert diagnose(replace(swept(), mtus=mtus)).outcome is DiagnosisOutcome.HEALTHY


@pytest.mark.parametrize(("small", "large", "named"), [(0, 1, ["mtu-black-hole"]), (0, 0, []), (1, 1, [])])
def test_or_where_a_large_ping_was(small: int, large: int, named: list[str]) -> None:
    mtus = {**dict.fromkeys(PEERS, 9000), "h3:eth1": 1500, "leaf1:swp5": 1500}
    pings = [("ping", "-M", "do", "-s", size, ADDRESSES["h3"]) for size in ("56", "8952", "x")]
    ran = tuple(Ran(1.0, "h6", argv, code, "") for argv, code in zip(pings, (small, large, 1), strict=True))
    found = diagnose(replace(swept(), mtus=mtus, ran=ran)).causes
    assert [(each.cause, each.places) for each in found if each.cause == "mtu-black-hole"] == [
        (cause, ("h3:eth1--leaf1:swp5",)) for cause in named
    ]


@pytest.mark.parametrize("came", [0, 60])
def test_what_is_missing_without_a_cause_is_unknown(came: int) -> None:
    found = diagnose(swept(replace(path(THERE, 1), came=came, large_came=0)))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert found.unexplained[0].source == "sweep"


def test_paths_of_the_same_delay_are_no_symptom() -> None:
    """Nor are those of which it is not known, nor a few microseconds."""
    few = replace(path(THERE, 1), delay=200e-6)
    for window in (delayed(), swept(), swept(few, replace(path(BACK, 1), delay=90e-6))):
        assert not list(path_delays.a_path_is_slow(window))
        assert diagnose(window).outcome is DiagnosisOutcome.HEALTHY


def test_of_a_slow_path_what_no_fast_path_uses_is_named() -> None:
    """With two leaves, each half of the path may be it, and the other direction is fast."""
    found = diagnose(delayed((THERE, 1)))
    assert [(each.cause, each.confidence) for each in found.causes] == [("link-delay", 0.45)]
    assert set(found.causes[0].places) == {"leaf1:swp1--spine1:swp1", "spine1:swp2--leaf2:swp1"}
    assert found.causes[0].evidence[0].value == 5090


def test_a_link_that_is_slow_both_ways_is_named_if_a_fast_path_uses_the_other() -> None:
    """A third leaf's path ends on the link from spine1 to leaf2."""
    third = Swept(1.0, ("h9:eth1", "leaf3:swp1", "spine1:swp2"), 61009, 9000, 100, 100, 10, 10, 90e-6)
    window = delayed((THERE, 1), (BACK, 1))
    ends = {port for each in window.swept if each.path[1] == "leaf2:swp1" for port in each.path[:2]}
    back = replace(third, path=("h9:eth1", *sorted(ends)), port=61010)
    (cause,) = diagnose(replace(window, swept=(*window.swept, *alike(third, back)))).causes
    assert (cause.cause, cause.confidence) == ("link-delay", 0.9)
    assert cause.places in {("leaf1:swp1--spine1:swp1",), ("spine1:swp1--leaf1:swp1",)}


def alike(*paths: Swept) -> list[Swept]:
    """Paths of four hops, as the others."""
    return [replace(each, path=(*each.path, "leaf3:swp9")[:4]) for each in paths]


def test_a_slow_switch_is_named_if_no_link_is_common() -> None:
    """Of three leaves, all paths by spine1 are slow."""
    ports = {("leaf1", "leaf2"): "h1", ("leaf2", "leaf3"): "h5", ("leaf3", "leaf1"): "h9"}
    window = delayed()
    slow, fast = (
        [
            replace(
                path(THERE, spine),
                path=(f"{host}:eth1", f"{src}:swp{spine}", f"spine{spine}:swp{dst[-1]}", f"{dst}:swp3"),
                delay=delay,
            )
            for (src, dst), host in ports.items()
        ]
        for spine, delay in ((1, 0.005), (2, 90e-6))
    )
    signs = list(path_delays.a_path_is_slow(replace(window, swept=(*slow, *fast))))
    assert [(sign.place, sign.weight) for sign in signs] == [("spine1", 0.9)]


def of_three_leaves(*slow: str, delay: float = 0.005) -> tuple[Swept, ...]:
    """All paths around a ring of three leaves by two spines, slow if they leave by one of these ports."""
    ends = {("leaf1", "leaf2"): "h1", ("leaf2", "leaf3"): "h5", ("leaf3", "leaf1"): "h9"}
    found = []
    for (src, dst), host in ends.items():
        for spine in (1, 2):
            ports = (f"{host}:eth1", f"{src}:swp{spine}", f"spine{spine}:swp{dst[-1]}", f"{dst}:swp3")
            taken = delay if set(ports) & set(slow) else 90e-6
            found.append(replace(path(THERE, spine), path=ports, delay=taken))
    return tuple(found)


def test_of_two_slow_links_both_are_named() -> None:
    """No link and no switch is common to all slow paths."""
    found = diagnose(replace(delayed(), swept=of_three_leaves("leaf1:swp1", "leaf2:swp2")))
    assert [each.cause for each in found.causes] == ["link-delay"]
    assert {"leaf1:swp1--spine1:swp1", "leaf2:swp2--spine2:swp2"} <= set(found.causes[0].places)
    assert not any("leaf3:swp1" in place for place in found.causes[0].places)


def test_a_slow_path_of_which_each_part_is_fast_elsewhere_is_trouble() -> None:
    """It has no place, and is not healthy either."""
    bent = Swept(1.0, ("h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp1"), 61009, 9000, 100, 100, 10, 10, 0.005)
    straight = [replace(bent, path=(*bent.path[:3], "leaf2:swp3"), delay=90e-6)]
    straight.append(replace(bent, path=("h2:eth1", "leaf1:swp2", "spine2:swp2", "leaf2:swp1"), delay=90e-6))
    found = diagnose(replace(delayed(), swept=(bent, *straight)))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert (found.unexplained[0].of, found.unexplained[0].value) == ("h1:eth1", 5000)


def test_a_path_that_its_queues_slow_down_is_not_slow() -> None:
    """50 KB take 4 ms at 100 Mb/s: an incast of others, during the sweep."""
    busy = facts({"leaf2:swp3": {"depth": 50_000.0}}, devices=QUIET)
    window = replace(busy, swept=tuple(replace(each, delay=0.004 if each.path[-1] == "leaf2:swp3" else 90e-6)
                                       for each in ALL))  # fmt: skip
    assert not list(path_delays.a_path_is_slow(window))
    assert list(path_delays.a_path_is_slow(replace(window, lanes={})))


def test_packets_that_arrive_twice_do_not_hide_those_that_are_missing() -> None:
    twice, missing = SweptPair(1.0, "h1", "h2", 3, 4, None), SweptPair(1.0, "h2", "h1", 3, 2, None)
    assert probes.missing(replace(swept(), swept_pairs=(twice, missing))) == 1
    paths = swept(replace(path(THERE, 1), came=101), replace(path(THERE, 2), came=98, large_came=9))
    assert probes.missing(paths) == 3
