"""The deadlock's checks: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, each, failing, outcomes, sent, together

CIRCLE = ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")
PAUSING = ("spine1:swp1", "leaf2:swp1", "spine2:swp2", "leaf1:swp2")
DROPPED = "leaf1:swp1 queue3_drop_watchdog_packets"
HEALTHY = sent({"leaf2:swp3": 99})
GOOD: Tale = {
    "baseline": HEALTHY,
    "inject": each(CIRCLE, "queue3_depth_bytes", 140_000),
    "observe": together(
        each(CIRCLE, "rx_prio3_pause_duration", 1_000_000),
        each(PAUSING, "tx_prio3_pause", 12),
        each(CIRCLE, "queue3_depth_bytes", 150_000),
    ),
    "fix": together({"leaf1:swp1 queue3_storms": 1, DROPPED: 36}, each(CIRCLE[1:], "tx_prio3_bytes", 160_000)),
    "verify": HEALTHY,
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "pfc-deadlock", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": {"leaf2:swp2 rx_prio3_pause_duration": 900_000}}, {"four-ports-wait-for-each-other"}),
        ({"observe": {"spine1:swp2 queue3_depth_bytes": 0}}, {"four-ports-wait-for-each-other"}),
        ({"observe": {"spine1:swp2 tx_prio3_bytes": 1}}, {"four-ports-wait-for-each-other"}),
        ({"observe": {"leaf1:swp2 tx_prio3_pause": 0}}, {"four-ports-wait-for-each-other"}),
        ({"observe": {"h1:eth1 tx_prio3_packets": 1}}, {"no-host-takes-part"}),
        ({"observe": {"h5:eth1 tx_prio3_pause": 1}}, {"no-host-takes-part"}),
        ({"inject": {"leaf1:swp1 queue3_drop_headroom_packets": 1}}, {"nothing-is-lost"}),
        ({"fix": {"leaf1:swp1 queue3_storms": 0}}, {"the-watchdog-breaks-the-cycle"}),
        ({"fix": {"spine2:swp1 queue3_drop_watchdog_packets": 1}}, {"the-watchdog-breaks-the-cycle"}),
        ({"fix": {"spine2:swp1 tx_prio3_bytes": 140_000}}, {"the-watchdog-breaks-the-cycle"}),
        ({"verify": sent({"leaf2:swp3": 80})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "pfc-deadlock", GOOD, changes) == wrong
