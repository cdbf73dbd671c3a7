"""Which silences of routing daemons mean something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.facts import Silence
from lab.diagnose.symptoms import silent_daemons
from tests.unit.diagnose import made_overlay
from tests.unit.diagnose.made_facts import SECONDS, facts


def silent(*seconds: float) -> tuple[Silence, ...]:
    return tuple(Silence(each, "leaf1", "bgpd", gone=False) for each in seconds)


@pytest.mark.parametrize(
    ("seconds", "seen"),
    [
        ((0.0, 1.0, SECONDS), True),
        ((0.0, 1.0), False),
        ((SECONDS, SECONDS), False),
        ((-1.0, 0.0, SECONDS - 1.6), False),
        ((-3.0, 0.5, SECONDS), False),
        ((-3.0, 0.0, 1.0, SECONDS), True),
    ],
)
def test_one_that_has_answered_in_between_was_only_busy(seconds: tuple[float, ...], seen: bool) -> None:
    found = [sign.place for sign in silent_daemons.a_daemon_stands_still(facts({}, silences=silent(*seconds)))]
    assert found == ["leaf1"] * seen


def test_a_tunnel_that_nobody_tells_of_is_a_consequence_of_its_leafs_dead_daemon() -> None:
    (unreachable,) = (there for cause, _, there, _ in made_overlay.CASES if cause == "vtep-unreachable")
    for node, causes in (("leaf3", {"daemon-killed"}), ("leaf1", {"daemon-killed", "vtep-unreachable"})):
        found = diagnose(replace(unreachable, silences=(Silence(0.1, node, "ospfd", gone=True),)))
        assert {each.cause for each in found.causes} == causes


def test_two_daemons_that_are_silent_in_turn_are_two() -> None:
    others = tuple(Silence(each.seconds, "spine1", "bfdd", gone=False) for each in silent(0.5, 1.5))
    assert list(silent_daemons.a_daemon_stands_still(facts({}, silences=silent(1.0, SECONDS) + others))) == []
