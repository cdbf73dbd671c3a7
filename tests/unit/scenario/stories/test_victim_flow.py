"""The victim flow's checks: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes, sent, together

HOSTS = ("h6:eth1", "h4:eth1", "h5:eth1")
GOOD: Tale = {
    "baseline": sent({"h6:eth1": 99}),
    "observe": together(sent(dict.fromkeys(HOSTS, 16)), {"h6:eth1 rx_prio3_pause": 9}),
    "verify": together(sent({"leaf2:swp1": 33}), sent({"h6:eth1": 66}, priority=4)),
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "victim-flow", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"baseline": {"h6:eth1 rx_prio3_pause": 1}}, {"the-victim-is-paused"}),
        ({"observe": {"h6:eth1 rx_prio3_pause": 0}}, {"the-victim-is-paused"}),
        ({"observe": {"spine1:swp3 rx_prio3_pause": 1}}, {"its-own-path-is-clear"}),
        ({"observe": {"leaf3:swp2 queue3_ecn_marked": 1}}, {"its-own-path-is-clear"}),
        ({"observe": sent({"h6:eth1": 33})}, {"it-gets-an-equal-share"}),
        ({"observe": sent({"h4:eth1": 33})}, {"it-gets-an-equal-share"}),
        ({"verify": sent({"h6:eth1": 16}, priority=4)}, {"a-separate-class-helps"}),
        ({"verify": {"spine1:swp2 queue4_drop_headroom_packets": 1}}, {"nothing-is-lost"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "victim-flow", GOOD, changes) == wrong
