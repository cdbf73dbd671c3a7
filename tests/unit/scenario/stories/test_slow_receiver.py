"""The slow receiver's checks: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes, sent, together

HEALTHY = sent({"leaf1:swp6": 99.4})
GOOD: Tale = {
    "baseline": HEALTHY,
    "observe": together(
        sent({"leaf1:swp6": 49.4}),
        {"h4:eth1 tx_prio3_pause": 50, "h1:eth1 rx_prio3_pause": 50, "leaf1:swp6 rx_prio3_pause_duration": 505_000},
        {"h4:eth1 pg3_xoff": 50, "h4:eth1 pg3_xon": 49},
    ),
    "verify": HEALTHY,
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "slow-receiver", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"verify": {"h4:eth1 tx_prio3_pause": 1}}, {"the-host-sends-pauses"}),
        ({"observe": {"h1:eth1 rx_prio3_pause": 0}}, {"the-host-sends-pauses"}),
        ({"observe": {"h4:eth1 pg3_xon": 0}}, {"each-pause-ends"}),
        ({"observe": sent({"leaf1:swp6": 56})}, {"half-of-the-link-is-used"}),
        ({"observe": {"leaf1:swp6 rx_prio3_pause_duration": 990_000}}, {"half-of-the-link-is-used"}),
        ({"observe": {"h4:rx-eth1 queue3_drop_headroom_packets": 1}}, {"nothing-is-lost"}),
        ({"verify": sent({"leaf1:swp6": 80})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "slow-receiver", GOOD, changes) == wrong
