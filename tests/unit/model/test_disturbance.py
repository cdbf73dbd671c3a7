"""Valid and invalid requests for a disturbance, and that storing one preserves it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.model.disturbance import Disturbance, dump, restore

SECONDS = st.floats(0, 60)
DISTURBANCES = st.builds(
    Disturbance,
    delay=SECONDS,
    jitter=SECONDS,
    reorder=st.just(0.0) | st.floats(1e-9, 1),
    distance=st.integers(1, 1000),
    hold=SECONDS,
    priorities=st.none() | st.frozensets(st.integers(0, 7), min_size=1),
    seed=st.integers(0, 2**64 - 1),
)


@given(DISTURBANCES)
def test_what_was_kept_is_what_was_asked_for(disturbance: Disturbance) -> None:
    assert restore(dump(disturbance)) == disturbance


def test_only_what_differs_is_kept() -> None:
    kept = dump(Disturbance(jitter=0.001, priorities=frozenset({3, 0})))
    assert json.loads(kept) == {"jitter": 0.001, "priorities": [0, 3]}


@pytest.mark.parametrize("text", ["", "7", "[]", "{}}", '{"later": 1}', '{"priorities": 7}', '{"delay": "1ms"}'])
def test_what_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^<disturbance>: "):
        restore(text)


@pytest.mark.parametrize("asked", [{"delay": 1e-6}, {"jitter": 1e-6}, {"reorder": 1e-3}])
def test_with_any_effect_it_does_something(asked: dict[str, Any]) -> None:
    assert Disturbance(distance=9, hold=1, seed=3).does_nothing
    assert not Disturbance(**asked).does_nothing


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"delay": -1}, "delay: goes from 0 to 60 s; take a time in between"),
        ({"jitter": 61}, "jitter: goes from 0 to 60 s; take a time in between"),
        ({"hold": float("inf")}, "hold: goes from 0 to 60 s; take a time in between"),
        ({"reorder": 1.5}, "reorder: is no probability; take a number from 0 to 1"),
        ({"reorder": 1e-12}, "reorder: is less than any packet will meet; take at least 2.4e-10"),
        ({"distance": 0}, "distance: goes from 1 to 1000; take a number in between"),
        ({"seed": -1}, "seed: goes from 0 to 18446744073709551615; take a number in between"),
        ({"priorities": frozenset({8})}, "priorities: goes from 0 to 7; take numbers in between"),
        ({"priorities": frozenset()}, "priorities: matches nothing; leave it out to match everything"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Disturbance(**asked)
    assert str(refused.value) == f"<disturbance>: {said}"
