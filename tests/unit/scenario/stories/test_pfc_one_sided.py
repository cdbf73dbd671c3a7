"""The checks of PFC on one side only: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes, sent, together

LOST = "leaf1:swp6 queue3_drop_headroom_packets"
HEALTHY = together(sent({"leaf1:swp6": 99}), {"h1:eth1 rx_prio3_pause_duration": 600_000})
GOOD: Tale = {
    "baseline": HEALTHY,
    "observe": {
        "leaf1:swp3 tx_prio3_pause": 2, "h1:eth1 rx_prio3_pause_ignored": 2, LOST: 300, "h4 out_of_seq_request": 9,
    },
    "verify": HEALTHY,
}  # fmt: skip


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "pfc-one-sided", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": {"leaf1:swp3 tx_prio3_pause": 0}}, {"pauses-are-ignored"}),
        ({"observe": {"h1:eth1 rx_prio3_pause_ignored": 0}}, {"pauses-are-ignored"}),
        ({"observe": {"h2:eth1 rx_prio3_pause_duration": 5}}, {"pauses-are-ignored"}),
        ({"observe": {LOST: 0}}, {"the-lossless-class-loses"}),
        ({"verify": {LOST: 1}}, {"the-lossless-class-loses"}),
        ({"observe": {"h4 out_of_seq_request": 0}}, {"packets-are-out-of-sequence"}),
        ({"verify": {"h4 out_of_seq_request": 1}}, {"packets-are-out-of-sequence"}),
        ({"verify": sent({"leaf1:swp6": 90})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "pfc-one-sided", GOOD, changes) == wrong
