"""Answers to challenges: every scenario with a fault has one, and a wrong guess does not reveal it."""

from __future__ import annotations

import re

import pytest

from lab.errors import UsageError
from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.challenges import guess
from lab.scenario.challenges.guess import Guess
from lab.scenario.challenges.story_answer import LEVELS, RUNGS

ANSWERS = {name: answer for name in library.names() if (answer := library.find(name).answer) is not None}
"""Published results have no fault, and so no answer."""
TOPOLOGIES = {name: read_topology(library.topology_of(library.find(name))) for name in ANSWERS}
KNOWN = guess.causes()
ELSEWHERE = ("spine2--leaf1", "spine1:swp3", "h7", "leaf3:swp2", "h9", "leaf2:swp6", "leaf1:swp6", "h4", "h6", "h1")

CAUSES = {
    "incast": "capacity", "slow-rail": "slow-receiver", "vlan-stp-blocked": "link-down",
    "one-slow-link-slows-all": "link-rate",
    "link-loss-mid-step": "gray-loss", "checkpoint-hits-training": "capacity",
    "ecmp-collision-of-rings": "elephant-collision", "kv-cache-beside-allreduce": "capacity",
    "pfc-storm-stalls-every-job": "pfc-storm",
    "ecn-off-by-3kb-256": "ecn-off-by-3kb", "ring-against-tree": "capacity",
}  # fmt: skip
"""The cause of scenarios that are not called by it."""


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_judged_right_at_each_of_its_places(name: str) -> None:
    answer, topology = ANSWERS[name], TOPOLOGIES[name]
    assert answer.level in LEVELS
    assert len(answer.hints) == len(RUNGS)
    assert answer.cause == CAUSES.get(name, name)
    for where in answer.where:
        assert guess.judge(answer, topology, answer, where)[0] is Guess.RIGHT
    wrong = 0
    for where in ELSEWHERE:
        try:
            ends = guess.ends_of(topology, where)
        except UsageError:
            continue
        if not any(ends & guess.ends_of(topology, right) for right in answer.where):
            verdict, told = guess.judge(answer, topology, answer, where)
            assert verdict is Guess.ELSEWHERE
            assert not [
                place for place in answer.where if re.search(rf"\b{re.escape(place)}\b", told.replace(where, ""))
            ]
            wrong += 1
    assert wrong


@pytest.mark.parametrize("name", ANSWERS)
def test_a_wrong_cause_is_contradicted_without_the_right_one(name: str) -> None:
    answer = ANSWERS[name]
    for claimed in KNOWN.values():
        if claimed.cause == answer.cause:
            continue
        verdict, told = guess.judge(answer, TOPOLOGIES[name], claimed, answer.where[0])
        assert verdict is Guess.WRONG
        assert claimed.sign in told
        assert answer.sign not in told
        assert not re.search(rf"\b{re.escape(answer.cause)}\b", told.replace(claimed.cause, ""))


def test_no_two_causes_have_the_same_sign() -> None:
    signs = [answer.sign for answer in ANSWERS.values()]
    assert len(set(signs)) == len(signs)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_workload_and_the_first_hint_do_not_name_the_cause_nor_the_workload_a_switch(name: str) -> None:
    answer = ANSWERS[name]
    assert answer.cause not in answer.workload + answer.hints[0]
    assert not re.search(r"leaf|spine|swp", answer.workload)


def test_there_are_challenges_of_every_level() -> None:
    assert {answer.level for answer in ANSWERS.values()} == set(LEVELS)


def test_a_scenarios_name_is_its_cause() -> None:
    assert guess.find_cause("incast") == guess.find_cause("capacity") == ANSWERS["incast"]


def test_causes_that_are_none_are_told_what_there_is() -> None:
    with pytest.raises(UsageError, match="there is no cause 'pfc-strom': did you mean 'pfc-storm'"):
        guess.find_cause("pfc-strom")
    with pytest.raises(UsageError) as refused:
        guess.find_cause("zzz")
    assert "rocelab scenario ls" in str(refused.value)
    assert not [cause for cause in guess.causes() if cause != "capacity" and cause in str(refused.value)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("evpn-rt", "evpn-rt-mismatch"), ("deadlock", "pfc-deadlock"), ("link-flop", "link-flap"), ("mtu", "vxlan-mtu")],
)
def test_the_nearest_few_causes_are_suggested(written: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        guess.find_cause(written)
    told = str(refused.value)
    assert repr(meant) in told
    assert 1 <= sum(repr(cause) in told for cause in guess.causes()) <= 3


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("leaf9", "no place 'leaf9' in fabric incast: there is leaf1 to leaf2"),
        ("zzz", "nodes are spine1, spine2, leaf1, leaf2, h1"),
        ("leaf1:swp99", "no interface 'swp99' on leaf1"),
        ("leaf1--zzz", "no node 'zzz' in fabric incast"),
        ("h1..h5", "no place 'h1..h5'"),
        ("", "no place ''"),
    ],
)
def test_places_that_are_none_are_told_what_there_is(place: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        guess.ends_of(TOPOLOGIES["incast"], place)
    assert told in str(refused.value)


def test_a_link_is_either_of_its_ends_and_no_other() -> None:
    topology = TOPOLOGIES["incast"]
    link = guess.ends_of(topology, "leaf1--spine1")
    assert link == guess.ends_of(topology, "spine1--leaf1") == {"leaf1:swp1", "spine1:swp1"}
    assert link & guess.ends_of(topology, "leaf1:swp1")
    assert not link & guess.ends_of(topology, "leaf1:swp2")
    assert not link & guess.ends_of(topology, "leaf1")


def test_of_two_scenarios_with_one_cause_the_one_of_that_name_says_what_would_be_so() -> None:
    assert guess.causes()["slow-receiver"] == ANSWERS["slow-receiver"]
    assert guess.find_cause("slow-rail") == ANSWERS["slow-receiver"]
