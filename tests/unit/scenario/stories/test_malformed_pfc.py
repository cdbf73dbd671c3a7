"""The checks of malformed PFC: each has a recording that it fails."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import Tale, failing, outcomes, sent, together

HEALTHY = sent({"leaf1:swp6": 99})
INVALID = "leaf1:swp6 rx_pfc_invalid"
TAKEN = "leaf1:swp6 rx_pfc"
PAUSED = "leaf1:swp6 rx_prio3_pause_duration"
GOOD: Tale = {
    "baseline": HEALTHY,
    "address": together(HEALTHY, {INVALID: 12}),
    "opcode": together(HEALTHY, {INVALID: 12}),
    "no-class": together(HEALTHY, {TAKEN: 12}),
    "vector": {TAKEN: 12, PAUSED: 1_000_000},
    "verify": HEALTHY,
}


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "malformed-pfc", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"address": {INVALID: 0}}, {"invalid-frames-are-counted"}),
        ({"opcode": {TAKEN: 1}}, {"invalid-frames-are-counted"}),
        ({"no-class": {TAKEN: 0}}, {"a-frame-without-priorities-is-pfc"}),
        ({"no-class": {INVALID: 1}}, {"a-frame-without-priorities-is-pfc"}),
        ({"no-class": {PAUSED: 1}}, {"three-kinds-pause-nothing"}),
        ({"address": sent({"leaf1:swp6": 90})}, {"three-kinds-pause-nothing"}),
        ({"vector": {PAUSED: 500_000}}, {"reserved-bits-are-ignored"}),
        ({"vector": {INVALID: 1}}, {"reserved-bits-are-ignored"}),
        ({"vector": HEALTHY}, {"reserved-bits-are-ignored"}),
        ({"verify": sent({"leaf1:swp6": 90})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "malformed-pfc", GOOD, changes) == wrong
