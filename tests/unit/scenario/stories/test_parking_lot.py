"""The parking lot's checks: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, each, failing, outcomes, sent, together

WRITERS = ("h2:eth1", "h4:eth1", "h7:eth1", "h8:eth1")
GOOD: Tale = {
    "baseline": sent({"h2:eth1": 100}),
    "observe": together(
        sent(dict(zip(WRITERS, (50, 25, 12.5, 12.5), strict=True))), each(WRITERS, "rx_prio3_pause", 20)
    ),
    "verify": sent(dict.fromkeys(WRITERS, 20)),
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "parking-lot", GOOD).values()) == {"pass"}


def test_two_ports_whose_pauses_are_in_step_two_to_one_divide_their_share_so(tmp_path: Path) -> None:
    """A play had 14.5 and 10.5 Mb/s; a model of two ports with one queue has 14.6 and 10.5 in 15 of 120 runs."""
    changes: Tale = {"observe": sent({"h7:eth1": 14.6, "h8:eth1": 10.4})}
    assert failing(tmp_path, "parking-lot", GOOD, changes) == set()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": sent({"h7:eth1": 16, "h8:eth1": 9})}, {"half-at-every-switch"}),
        ({"observe": sent({"h7:eth1": 14, "h8:eth1": 14})}, {"half-at-every-switch"}),
        ({"observe": sent(dict.fromkeys(WRITERS, 25))}, {"half-at-every-switch", "fairness-matches-the-shares"}),
        ({"observe": {"h8:eth1 rx_prio3_pause": 0}}, {"all-writers-are-paused"}),
        ({"observe": {"spine1:swp1 queue3_drop_headroom_packets": 1}}, {"all-writers-are-paused"}),
        ({"verify": sent({"h2:eth1": 30})}, {"fair-rates-need-no-pause"}),
        ({"verify": {"leaf2:swp1 rx_prio3_pause": 1}}, {"fair-rates-need-no-pause"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "parking-lot", GOOD, changes) == wrong
