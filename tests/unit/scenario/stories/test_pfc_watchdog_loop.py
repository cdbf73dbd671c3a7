"""The checks of a watchdog that lets go too soon: each has a recording that it fails, and one that is too short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.scenario.tale import Growth, Tale, failing, outcomes, sent, together

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO: Final = "pfc-watchdog-loop"
PAUSED: Final[dict[str, Growth]] = {
    leaf: {f"{leaf}:swp6 rx_prio3_pause_duration": 839_000} for leaf in ("leaf1", "leaf2")
}
WELL: Final = {leaf: sent({f"{leaf}:swp5": 90}) for leaf in ("leaf1", "leaf2")}
SEEN, OVER = ({leaf: f"{leaf}:swp6 queue3_{what}" for leaf in WELL} for what in ("storms", "restored"))
HELD: Final = {leaf: f"spine2:swp{leaf[-1]} rx_prio3_pause_duration" for leaf in WELL}
GOOD: Final[Tale] = {
    "baseline": WELL["leaf1"],
    "contained": together(WELL["leaf1"], PAUSED["leaf1"], {SEEN["leaf1"]: 1, HELD["leaf1"]: 30_000}),
    "before": WELL["leaf2"],
    "observe": together(
        PAUSED["leaf2"], sent({"leaf2:swp5": 55}), {SEEN["leaf2"]: 3, OVER["leaf2"]: 3, HELD["leaf2"]: 350_000}
    ),
    "fix": {SEEN["leaf2"]: 2, OVER["leaf2"]: 1},
    "verify": together(WELL["leaf2"], PAUSED["leaf2"]),
}


def told(*kinds: tuple[int, str]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """What leaf2's port tells while the storm is looked at, and after how many ms; another port tells, too."""
    ends = {"source": "port", "node": "leaf2", "number": 3}
    events = [(after, {**ends, "interface": "swp6", "kind": kind}) for after, kind in kinds]
    return {"observe": [*events, (900, {**ends, "interface": "swp5", "kind": "restored"})]}


LOOPS: Final = told((200, "storm"), (345, "restored"), (600, "storm"), (746, "restored"), (950, "storm"))
"""The last of which is not over yet."""


def test_a_good_run_passes(tmp_path: Path) -> None:
    found = outcomes(tmp_path, SCENARIO, GOOD, events=LOOPS)
    assert len(found) == 5
    assert set(found.values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"contained": {SEEN["leaf1"]: 0}}, "a-long-restoration-contains-the-storm"),
        ({"contained": {OVER["leaf1"]: 1}}, "a-long-restoration-contains-the-storm"),
        ({"contained": sent({"leaf1:swp5": 80})}, "a-long-restoration-contains-the-storm"),
        (
            {"contained": {"leaf1:swp6 rx_prio3_pause_duration": 1_080_000}},
            "a-long-restoration-contains-the-storm",
        ),
        ({"observe": {SEEN["leaf2"]: 2, OVER["leaf2"]: 2}}, "a-short-restoration-detects-it-again"),
        ({"observe": {SEEN["leaf2"]: 4, OVER["leaf2"]: 4}}, "a-short-restoration-detects-it-again"),
        ({"observe": {OVER["leaf2"]: 1}}, "a-short-restoration-detects-it-again"),
        ({"observe": {"leaf2:swp6 rx_prio3_pause_duration": 300_000}}, "a-short-restoration-detects-it-again"),
        ({"observe": {HELD["leaf2"]: 50_000}}, "each-storm-spreads-first"),
        ({"observe": {HELD["leaf2"]: 510_000}}, "each-storm-spreads-first"),
        ({"contained": {HELD["leaf1"]: 180_000}}, "each-storm-spreads-first"),
        ({"observe": sent({"leaf2:swp5": 80})}, "each-storm-spreads-first"),
        ({"verify": {SEEN["leaf2"]: 2}}, "a-longer-restoration-helps"),
        ({"verify": {OVER["leaf2"]: 1}}, "a-longer-restoration-helps"),
        ({"verify": sent({"leaf2:swp5": 80})}, "a-longer-restoration-helps"),
        ({"verify": {"leaf2:swp6 rx_prio3_pause_duration": 0}}, "a-longer-restoration-helps"),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: str) -> None:
    assert failing(tmp_path, SCENARIO, GOOD, changes, LOOPS) == {wrong}


@pytest.mark.parametrize(
    "events",
    [
        told(),
        told((200, "storm"), (345, "restored")),
        told((200, "storm"), (345, "restored"), (600, "storm"), (760, "restored")),
    ],
)
def test_storms_that_last_are_not_over_too_soon(tmp_path: Path, events: Any) -> None:
    assert failing(tmp_path, SCENARIO, GOOD, {}, events) == {"each-restoration-is-too-early"}


def test_what_a_run_does_not_show_is_unknown(tmp_path: Path) -> None:
    """Both the phases in which a leaf is tried are missing."""
    rest = {name: growth for name, growth in GOOD.items() if name not in {"contained", "observe", "verify"}}
    assert set(outcomes(tmp_path, SCENARIO, rest).values()) == {"unknown"}
