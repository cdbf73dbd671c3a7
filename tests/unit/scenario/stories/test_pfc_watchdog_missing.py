"""The checks of a watchdog that is missing: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Growth, Tale, failing, outcomes, sent, together

STORM: dict[str, Growth] = {leaf: {f"{leaf}:swp6 rx_prio3_pause_duration": 1_000_000} for leaf in ("leaf1", "leaf2")}
HELD = {leaf: f"spine2:swp{number} rx_prio3_pause_duration" for number, leaf in enumerate(("leaf1", "leaf2"), 1)}
INNOCENT = {leaf: sent({f"{leaf}:swp5": 50}) for leaf in ("leaf1", "leaf2")}
SEEN = {leaf: f"{leaf}:swp6 queue3_storms" for leaf in ("leaf1", "leaf2")}
DROPPED = "leaf1:swp6 queue3_drop_watchdog_packets"
GOOD: Tale = {
    "baseline": INNOCENT["leaf1"],
    "contained": together(INNOCENT["leaf1"], STORM["leaf1"], {SEEN["leaf1"]: 1, DROPPED: 80, HELD["leaf1"]: 490_000}),
    "before": INNOCENT["leaf2"],
    "observe": together(STORM["leaf2"], {"leaf2:swp1 tx_prio3_pause": 12, HELD["leaf2"]: 990_000}),
    "fix": {SEEN["leaf2"]: 1},
    "verify": together(INNOCENT["leaf2"], STORM["leaf2"]),
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "pfc-watchdog-missing", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"contained": {SEEN["leaf1"]: 0}}, {"a-watchdog-contains-the-storm"}),
        ({"contained": {HELD["leaf1"]: 770_000}}, {"a-watchdog-contains-the-storm"}),
        ({"contained": sent({"leaf1:swp5": 0})}, {"a-watchdog-contains-the-storm"}),
        ({"contained": {"leaf1:swp6 rx_prio3_pause_duration": 0}}, {"a-watchdog-contains-the-storm"}),
        ({"observe": {SEEN["leaf2"]: 1}}, {"without-a-watchdog-it-spreads"}),
        ({"observe": {"leaf2:swp1 tx_prio3_pause": 0}}, {"without-a-watchdog-it-spreads"}),
        ({"observe": {HELD["leaf2"]: 730_000}}, {"without-a-watchdog-it-spreads"}),
        ({"observe": INNOCENT["leaf2"]}, {"without-a-watchdog-it-spreads"}),
        ({"contained": {DROPPED: 0}}, {"only-the-watched-leaf-drops"}),
        ({"observe": {"leaf2:swp6 queue3_drop_headroom_packets": 1}}, {"only-the-watched-leaf-drops"}),
        ({"verify": {"leaf2:swp6 rx_prio3_pause_duration": 0}}, {"enabling-the-watchdog-helps"}),
        ({"verify": sent({"leaf2:swp5": 10})}, {"enabling-the-watchdog-helps"}),
        ({"verify": {HELD["leaf2"]: 770_000}}, {"enabling-the-watchdog-helps"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "pfc-watchdog-missing", GOOD, changes) == wrong
