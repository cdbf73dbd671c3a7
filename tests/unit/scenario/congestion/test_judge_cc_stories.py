"""Stories of CNPs in a lossy class, other registers and late ACKs: each check has a recording that it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.scenario.tale import Tale, each, failing, outcomes, sent, together

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = ("h1:eth1", "h2:eth1", "h3:eth1")
CNPS = each(WRITERS, "rp_cnp_handled", 20)
FAIR = together(sent(dict.fromkeys(WRITERS, 30)), CNPS)
LATE = together(each(("h1", "h2", "h3"), "duplicate_request", 400), {"h4 completer_retry_err": 9})
FAR = ("h5:eth1", "h6:eth1", "h7:eth1")
IN_TIME = together(
    each(FAR, "rp_cnp_handled", 20), {"h4:eth1 np_cnp_sent": 60, "leaf1:swp1 queue0_depth_bytes": 300_000}
)
GOOD: dict[str, Tale] = {
    "cc-parameters-differ": {
        "baseline": FAIR, "observe": together(CNPS, sent(dict(zip(WRITERS, (10, 10, 70), strict=True)))),
        "verify": FAIR,
    },
    "cnp-in-lossy-class": {
        "baseline": together(IN_TIME, {"leaf1:swp5 rx_prio6_packets": 60}),
        "observe": together(IN_TIME, each(FAR, "rp_cnp_handled", 12), {"leaf1:swp5 rx_prio0_packets": 60}),
        "verify": together(IN_TIME, {"leaf1:swp5 rx_prio6_packets": 60}),
    },
    "ack-starved-by-pfc": {
        "baseline": sent({"h4:eth1": 90}),
        "observe": together(
            sent({"h4:eth1": 70}), LATE, each(WRITERS, "rx_prio3_pause_duration", 600_000)
        ),
        "verify": sent({"h4:eth1": 90}, priority=4),
    },
}  # fmt: skip


@pytest.mark.parametrize("scenario", GOOD)
def test_a_good_run_passes(scenario: str, tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, scenario, GOOD[scenario]).values()) == {"pass"}


@pytest.mark.parametrize(
    ("scenario", "changes", "wrong"),
    [
        ("cc-parameters-differ", {"observe": sent({"h3:eth1": 25})}, "the-fast-one-takes-the-link"),
        ("cc-parameters-differ", {"verify": sent({"h1:eth1": 3, "h2:eth1": 28})}, "equal-registers-are-fair"),
        ("cc-parameters-differ", {"observe": {"h3:eth1 rp_cnp_handled": 0}}, "all-obey-cnps"),
        ("cc-parameters-differ", {"observe": {"h3:eth1 rp_cnp_ignored": 1}}, "all-obey-cnps"),
        ("cc-parameters-differ", {"verify": {"leaf1:swp5 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
        ("cnp-in-lossy-class", {"observe": {"leaf1:swp5 rx_prio6_packets": 9}}, "cnps-are-best-effort"),
        ("cnp-in-lossy-class", {"verify": {"leaf1:swp5 rx_prio6_packets": 9}}, "cnps-are-best-effort"),
        ("cnp-in-lossy-class", {"observe": {"leaf1:swp5 rx_prio0_packets": 9}}, "cnps-are-best-effort"),
        (
            "cnp-in-lossy-class", {"observe": {"leaf1:swp1 queue0_depth_bytes": 50_000}},
            "they-wait-behind-bulk-traffic",
        ),
        ("cnp-in-lossy-class", {"observe": each(FAR, "rp_cnp_handled", 20)}, "cnps-arrive-late"),
        ("cnp-in-lossy-class", {"verify": each(FAR, "rp_cnp_handled", 19)}, "cnps-arrive-late"),
        ("cnp-in-lossy-class", {"observe": {"leaf2:swp1 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
        ("ack-starved-by-pfc", {"observe": {"h4 completer_retry_err": 0}}, "acks-come-too-late"),
        ("ack-starved-by-pfc", {"verify": {"h2 duplicate_request": 1}}, "acks-come-too-late"),
        ("ack-starved-by-pfc", {"observe": {"leaf1:swp3 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
        ("ack-starved-by-pfc", {"observe": {"h1 out_of_seq_request": 1}}, "nothing-is-lost"),
        ("ack-starved-by-pfc", {"observe": {"h1:eth1 rx_prio3_pause_duration": 100_000}}, "the-acks-class-is-paused"),
        ("ack-starved-by-pfc", {"observe": {"h4:eth1 rx_prio3_pause_duration": 1}}, "the-acks-class-is-paused"),
        ("ack-starved-by-pfc", {"observe": sent({"h4:eth1": 110})}, "the-useful-rate-falls"),
        ("ack-starved-by-pfc", {"verify": sent({"h4:eth1": 70}, priority=4)}, "the-useful-rate-falls"),
    ],
)  # fmt: skip
def test_each_check_has_one_that_it_fails(scenario: str, changes: Tale, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, scenario, GOOD[scenario], changes) == {wrong}


@pytest.mark.parametrize("scenario", GOOD)
def test_without_a_phase_it_is_unknown(scenario: str, tmp_path: Path) -> None:
    rest = {name: growth for name, growth in GOOD[scenario].items() if name != "observe"}
    assert set(outcomes(tmp_path, scenario, rest).values()) == {"unknown"}
