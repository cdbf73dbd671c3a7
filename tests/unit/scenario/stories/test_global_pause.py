"""The checks of link pause instead of PFC: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes, sent, together

PAUSED = "leaf1:swp6 rx_prio3_pause_duration"
LOST = "h4:rx-eth1 queue3_drop_headroom_packets"
HEALTHY = together(sent({"leaf1:swp6": 49}), {PAUSED: 500_000})
GOOD: Tale = {
    "baseline": HEALTHY,
    "observe": {"leaf1:swp6 rx_global_pause": 12, LOST: 40},
    "verify": HEALTHY,
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "global-pause", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": {"leaf1:swp6 rx_global_pause": 9}}, {"pause-frames-arrive"}),
        ({"verify": {"leaf1:swp6 rx_global_pause": 1}}, {"pause-frames-arrive"}),
        ({"observe": {PAUSED: 1000}}, {"the-leaf-keeps-sending"}),
        ({"verify": {PAUSED: 0}}, {"the-leaf-keeps-sending"}),
        ({"observe": {LOST: 0}}, {"the-host-nic-drops"}),
        ({"observe": {"leaf1:swp6 queue3_drop_limit_packets": 1}}, {"the-host-nic-drops"}),
        ({"verify": {LOST: 1}}, {"the-host-nic-drops"}),
        ({"verify": sent({"leaf1:swp6": 40})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "global-pause", GOOD, changes) == wrong
