"""Scenarios of published results: each check fails on a recording that breaks its pass line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.scenario.tale import Growth, Tale, each, failing, outcomes, sent, together

if TYPE_CHECKING:
    from pathlib import Path

RANKS = ("h1:eth1", "h2:eth1")
SWITCH = ("leaf1:swp1", "leaf1:swp2")
FOUR = ("h1:eth1", "h5:eth1", "h6:eth1", "h7:eth1")
LINK = {"leaf1:swp5": 96}
ALONE = each(("leaf1:swp1", "leaf1:swp2", "spine1:swp2"), "tx_prio3_pause", 100)


def counted(marked: dict[int, int], pauses: int = 0, priorities: tuple[int, ...] = (3,)) -> Growth:
    """Return the counters of a phase of the test plan: marks and CNPs that match, and pauses of the classes."""
    pausing = together(*(
        together(each(SWITCH, f"tx_prio{n}_pause", pauses), each(RANKS, f"rx_prio{n}_pause", pauses))
        for n in priorities
    ))  # fmt: skip
    marks = {f"leaf1:swp4 queue{n}_ecn_marked": count for n, count in marked.items()}
    cnps = {"h4:eth1 np_cnp_sent": 40, "h1:eth1 rp_cnp_handled": 20, "h2:eth1 rp_cnp_handled": 20}
    return {**pausing, **marks, **cnps, "h4:eth1 np_ecn_marked_roce_packets": sum(marked.values())}


def at_rates(first: float, second: float, priority: int) -> Growth:
    return together(sent({"h1:eth1": first}), sent({"h2:eth1": second}, priority=priority))


def shared(*rates: float) -> Growth:
    return sent(dict(zip(FOUR, rates, strict=True)))


GOOD: dict[str, Tale] = {
    "paper-parking-lot": {
        "observe": together(shared(48, 16, 16, 16), sent(LINK), ALONE),
        "verify": together(shared(27, 21, 22, 20), sent({"leaf1:swp5": 90}), {"leaf1:swp1 tx_prio3_pause": 9}),
    },
    "paper-victim-flow": {
        "baseline": sent({"h8:eth1": 24}),
        "alone": sent({"h8:eth1": 24}),
        "one": sent({"h8:eth1": 16}),
        "observe": together(sent({"h8:eth1": 11}), {"h8:eth1 rx_prio3_pause": 100}),
        "verify": sent({"h8:eth1": 24}),
    },
    "sonic-tc3": {
        "single": counted({3: 90}),
        "dual": counted({3: 50, 4: 60}),
        "marked": together(counted({}), {
            "h4:eth1 rx_prio3_packets": 100, "h4:eth1 rx_prio4_packets": 100,
            "h4:eth1 np_ecn_marked_roce_packets": 200,
        }),
    },
    "sonic-tc4": {
        "single-pfc": counted({3: 900}, pauses=30),
        "single-dcqcn": counted({3: 90}),
        "dual-pfc": counted({3: 500, 4: 400}, pauses=30, priorities=(3, 4)),
        "dual-dcqcn": counted({3: 50, 4: 40}),
    },
    "sonic-tc6": {
        "single": together(counted({3: 90}), at_rates(20, 25, 3)),
        "dual": together(counted({3: 50, 4: 40}), at_rates(25, 20, 4)),
    },
    "paper-incast": {
        "observe": together(sent(LINK), ALONE, {"spine1:swp1 rx_prio3_pause": 150}),
        "verify": together(sent({"leaf1:swp5": 90}), each(("leaf1:swp1",), "tx_prio3_pause", 2),
                           each(("spine1:swp1",), "rx_prio3_pause", 1)),
    },
}  # fmt: skip


@pytest.mark.parametrize("scenario", GOOD)
def test_a_good_run_passes(scenario: str, tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, scenario, GOOD[scenario]).values()) == {"pass"}


@pytest.mark.parametrize(
    ("scenario", "changes", "wrong"),
    [
        ("paper-parking-lot", {"observe": shared(30, 22, 22, 22)}, "pfc-alone-is-unfair"),
        ("paper-parking-lot", {"verify": shared(40, 17, 17, 16)}, "dcqcn-is-fair"),
        ("paper-parking-lot", {"verify": sent({"leaf1:swp5": 80})}, "the-link-stays-full"),
        ("paper-parking-lot", {"verify": {"leaf1:swp2 tx_prio3_pause": 40}}, "pauses-are-rare-with-dcqcn"),
        ("paper-parking-lot", {"verify": {"leaf1:swp2 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
        ("paper-parking-lot", {"observe": {"h6 completer_retry_err": 4}}, "no-qp-times-out"),
        ("paper-parking-lot", {"verify": {"h1 completer_retry_err": 1}}, "no-qp-times-out"),
        ("paper-victim-flow", {"one": sent({"h8:eth1": 24})}, "pfc-alone-slows-the-victim"),
        ("paper-victim-flow", {"observe": sent({"h8:eth1": 15})}, "pfc-alone-slows-the-victim"),
        ("paper-victim-flow", {"verify": sent({"h8:eth1": 18})}, "dcqcn-protects-the-victim"),
        ("paper-victim-flow", {"baseline": sent({"h8:eth1": 16}), "verify": sent({"h8:eth1": 14})},
         "dcqcn-protects-the-victim"),
        ("paper-victim-flow", {"verify": {"h8:eth1 rx_prio3_pause": 11}}, "the-victim-is-not-paused"),
        ("paper-victim-flow", {"observe": together(sent({"h8:eth1": 11}), {"h8:eth1 rx_prio3_pause": 9})},
         "the-victim-is-not-paused"),
        ("paper-victim-flow", {"one": {"leaf1:swp2 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
        ("sonic-tc3", {"single": {"leaf1:swp4 queue1_drop_limit_packets": 1}}, "no-packet-is-lost"),
        ("sonic-tc3", {"dual": {"h4 out_of_seq_request": 1}}, "no-nak-and-no-sequence-error"),
        ("sonic-tc3", {"dual": {"h2:eth1 rx_prio4_pause_duration": 20_000}}, "few-or-no-pfc"),
        ("sonic-tc3", {"single": {"h1:eth1 rx_prio3_pause": 5}}, "pfc-counters-match"),
        ("sonic-tc3", {"single": {"leaf1:swp4 queue3_ecn_marked": 100}}, "marks-match"),
        ("sonic-tc3", {"single": {"leaf1:swp4 queue3_ecn_marked": 100, "leaf1:swp4 queue3_depth_bytes": 7 * 4154}},
         "marks-match"),
        ("sonic-tc3", {"single": {"leaf1:swp4 queue3_ecn_marked": 1, "h4:eth1 np_ecn_marked_roce_packets": 0}},
         "marks-match"),
        ("sonic-tc3", {"dual": {"leaf1:swp4 queue3_ecn_marked": 110, "leaf1:swp4 queue4_ecn_marked": 0}},
         "marks-match"),
        ("sonic-tc3", {"marked": {"h4:eth1 np_ecn_marked_roce_packets": 190}}, "all-marked-packets-arrive"),
        ("sonic-tc3", {"marked": {"h4:eth1 np_cnp_sent": 50}}, "cnps-match"),
        ("sonic-tc4", {"dual-pfc": together(
            each(SWITCH, "tx_prio4_pause", 0), each(RANKS, "rx_prio4_pause", 0),
        )}, "pfc-is-seen"),
        ("sonic-tc4", {"single-dcqcn": {"h2:eth1 rx_prio3_pause_duration": 20_000}}, "few-or-no-pfc"),
        ("sonic-tc4", {"dual-pfc": {"h1:eth1 rp_cnp_handled": 0}}, "cnps-match"),
        ("sonic-tc6", {"single": at_rates(20, 28, 3)}, "the-rates-are-alike"),
        ("sonic-tc6", {"dual": at_rates(28, 20, 4)}, "the-rates-are-alike"),
        ("sonic-tc6", {"dual": {"h1 rcvd_seq_err": 1}}, "no-nak-and-no-sequence-error"),
        ("paper-incast", {"verify": {"spine1:swp1 rx_prio3_pause": 2}}, "the-spine-is-left-alone"),
        ("paper-incast", {"verify": {"leaf1:swp1 tx_prio3_pause": 4}}, "pauses-are-rare-with-dcqcn"),
        ("paper-incast", {"verify": sent({"leaf1:swp5": 80})}, "the-link-stays-full"),
    ],
)  # fmt: skip
def test_each_check_has_one_that_it_fails(scenario: str, changes: Tale, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, scenario, GOOD[scenario], changes) == {wrong}


@pytest.mark.parametrize("scenario", GOOD)
def test_without_a_phase_it_is_unknown(scenario: str, tmp_path: Path) -> None:
    last = list(GOOD[scenario])[-1]
    rest = {name: growth for name, growth in GOOD[scenario].items() if name != last}
    assert "unknown" in set(outcomes(tmp_path, scenario, rest).values())
