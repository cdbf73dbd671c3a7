"""Valid and invalid requests for an impairment, and that storing one preserves it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.model.impairment import Impairment, Traffic, dump, parts, restore

CHANCE = st.just(0.0) | st.floats(1e-9, 1)
IMPAIRMENTS = st.builds(
    Impairment,
    traffic=st.frozensets(st.sampled_from(Traffic), min_size=1).map(lambda chosen: chosen | {Traffic.ROCE}),
    dscps=st.none() | st.frozensets(st.integers(0, 63), min_size=1),
    pcps=st.none() | st.frozensets(st.integers(0, 7), min_size=1),
    opcodes=st.none() | st.frozensets(st.integers(0, 255), min_size=1),
    min_size=st.integers(0, 2**32 - 1),
    protocol=st.none() | st.integers(0, 255),
    port=st.none() | st.integers(1, 65535),
    ip_id=st.none() | st.integers(0, 255),
    loss=CHANCE,
    lose_every=st.integers(0, 2**64 - 1),
    corrupt_frame=CHANCE,
    corrupt_payload=CHANCE,
    dscp=st.none() | st.integers(0, 63),
    clear_ecn=st.booleans(),
    duplicate=CHANCE,
    seed=st.integers(0, 2**64 - 1),
)


@given(IMPAIRMENTS)
def test_what_was_kept_is_what_was_asked_for(impairment: Impairment) -> None:
    assert restore(dump(impairment)) == impairment


def test_only_what_differs_is_kept() -> None:
    assert json.loads(dump(Impairment(loss=0.01, dscps=frozenset({26, 3})))) == {"loss": 0.01, "dscps": [3, 26]}


@pytest.mark.parametrize("text", ["", "7", "[]", "{}}", '{"lost": 1}', '{"dscps": 7}', '{"traffic": ["trains"]}'])
def test_what_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^<impairment>: is damaged; heal the fault"):
        restore(text)


def test_as_it_is_made_it_does_nothing() -> None:
    assert Impairment().does_nothing
    assert Impairment(min_size=9, seed=8).does_nothing


@pytest.mark.parametrize(
    "asked",
    [
        {"loss": 0.5},
        {"lose_every": 2},
        {"corrupt_frame": 1.0},
        {"corrupt_payload": 1e-9},
        {"dscp": 0},
        {"clear_ecn": True},
        {"duplicate": 1},
    ],
)
def test_with_any_effect_it_does_something(asked: dict[str, Any]) -> None:
    assert not Impairment(**asked).does_nothing


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"traffic": frozenset()}, "traffic: names nothing to impair; name some of roce, other, control, pauses"),
        ({"traffic": frozenset({"roces"})}, "traffic: names nothing to impair; name some of"),
        ({"dscps": frozenset()}, "dscps: matches nothing; leave it out to match everything"),
        ({"dscps": frozenset({64})}, "dscps: goes from 0 to 63; take a number in between"),
        ({"pcps": frozenset({8})}, "pcps: goes from 0 to 7; take a number in between"),
        ({"opcodes": frozenset({-1})}, "opcodes: goes from 0 to 255; take a number in between"),
        ({"min_size": -1}, "min_size: goes from 0 to 4294967295; take a number in between"),
        ({"protocol": 256}, "protocol: goes from 0 to 255; take a number in between"),
        ({"port": 0}, "port: goes from 1 to 65535; take a number in between"),
        ({"ip_id": 256}, "ip_id: goes from 0 to 255; take a number in between"),
        ({"dscp": 64}, "dscp: goes from 0 to 63; take a number in between"),
        ({"seed": 2**64}, "seed: goes from 0 to 18446744073709551615; take a number in between"),
        ({"lose_every": 1.5}, "lose_every: goes from 0 to 18446744073709551615; take a number in between"),
        ({"loss": 1.1}, "loss: is no probability; take a number from 0 to 1"),
        ({"corrupt_frame": -0.1}, "corrupt_frame: is no probability; take a number from 0 to 1"),
        ({"corrupt_payload": float("nan")}, "corrupt_payload: is no probability; take a number from 0 to 1"),
        ({"duplicate": 1e-12}, "duplicate: is less than any packet will meet; take at least 2.4e-10"),
        (
            {"opcodes": frozenset({4}), "traffic": frozenset({Traffic.OTHER})},
            "opcodes: are those of RoCEv2, which is not meant; add roce to traffic",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Impairment(**asked)
    assert str(refused.value).startswith(f"<impairment>: {said}")


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        Impairment(loss=2, port=0, dscps=frozenset({99}))
    assert {problem.path for problem in refused.value.problems} == {"loss", "port", "dscps"}


def test_probabilities_are_kept_to_a_part_in_four_billion() -> None:
    assert [parts(0), parts(1), parts(0.5), parts(2**-32)] == [0, 2**32, 2**31, 1]
