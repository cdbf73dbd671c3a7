"""The checks of headroom that is too small: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes

LOST = "leaf1:swp6 queue3_drop_headroom_packets"
GOOD: Tale = {
    "baseline": {"leaf1:swp3 tx_prio3_pause": 9},
    "alone": {},
    "observe": {LOST: 30, "leaf1:swp3 pg3_drop_packets": 10, "leaf1:swp5 pg3_drop_packets": 20},
    "verify": {"leaf1:swp4 pg3_headroom_bytes": 45_000},
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "headroom-too-small", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"baseline": {LOST: 1}}, {"full-load-loses"}),
        ({"alone": {LOST: 1}}, {"full-load-loses"}),
        ({"alone": {"leaf1:swp3 tx_prio3_pause": 1}}, {"full-load-loses"}),
        ({"observe": {LOST: 0}}, {"full-load-loses", "the-inputs-count-the-drops"}),
        ({"observe": {"leaf1:swp3 pg3_drop_packets": 9}}, {"the-inputs-count-the-drops"}),
        ({"verify": {LOST: 1}}, {"computed-headroom-suffices"}),
        ({"verify": {"leaf1:swp4 pg3_headroom_bytes": 18_000}}, {"computed-headroom-suffices"}),
        ({"verify": {"leaf1:swp4 pg3_headroom_bytes": 69_000}}, {"computed-headroom-suffices"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "headroom-too-small", GOOD, changes) == wrong
