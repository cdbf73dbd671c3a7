"""What an analysis says of a conversation, and what really happened in it, as a model of the specification knows."""

from __future__ import annotations

import io

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.analysis.transport.naks import IMPLIED, TIMEOUT
from tests.unit.analysis import packets
from tests.unit.analysis.simulated import LINKS, Conversation
from tests.unit.analysis.simulated_reads import Reads


def conversation(seed: int) -> Conversation:
    """60 messages: losses and lost answers of several rates, PSNs that wrap or not."""
    loss, answers_lost = (0.005, 0.02, 0.06)[seed % 3], (0, 0.02)[seed % 2]
    return Conversation(seed, messages=60, loss=loss, answers_lost=answers_lost, first=(7, 0xFFFFA0)[seed // 2 % 2])


@pytest.mark.parametrize("seed", range(24))
def test_deliveries_and_steps_back_are_those_of_the_two_ends(seed: int) -> None:
    """Each link tells the same of what was delivered, and the requester's link every step back and its cause."""
    happened = conversation(seed)
    facts = analyse(io.BytesIO(happened.capture()), "story", chunk=1000 * (seed + 1))
    flows = {flow.link: flow for flow in facts.flows if flow.messages}
    assert [flows[link].messages for link in LINKS] == [{"WRITE": happened.delivered}] * len(LINKS)
    assert [(step.psn, step.cause) for step in facts.go_back_n if step.link == "A"] == happened.backs
    assert flows["A"].resent == happened.resent


@pytest.mark.parametrize("seed", range(24))
def test_every_loss_is_told_where_it_was(seed: int) -> None:
    """For each step back one place; a packet that came, was discarded, and was then lost when it came again, too."""
    happened = conversation(seed)
    losses = analyse(io.BytesIO(happened.capture()), "story").losses
    assert len(losses) == len(happened.backs)
    for loss in losses:
        if loss.before is None and loss.answer == TIMEOUT and happened.answers_may_be_lost:
            continue  # every link saw it: its answer was lost
        assert (loss.after, loss.before, loss.psn) in happened.lost


def reads(seed: int) -> Reads:
    """40 READs, of which responses are lost at several rates."""
    return Reads(seed, reads=40, loss=(0.002, 0.01, 0.03)[seed % 3], first=(0, 5)[seed % 2])


@pytest.mark.parametrize("seed", range(24))
def test_reads_bring_back_what_the_requester_took(seed: int) -> None:
    """Every byte once, and each step back with its cause: a gap in the responses is an implied NAK."""
    happened = reads(seed)
    facts = analyse(io.BytesIO(happened.capture()), "story", chunk=1000 * (seed + 1))
    (responses,) = [flow for flow in facts.flows if flow.link == "A" and flow.qp == packets.QP1]
    assert responses.payload == happened.taken
    assert [(step.psn, step.cause) for step in facts.go_back_n if step.link == "A"] == happened.backs


@pytest.mark.parametrize("seed", range(24))
def test_every_lost_response_is_told_where_it_was(seed: int) -> None:
    """Those that a gap told of; of the last ones before a silence nobody knows more than that the answer was lost."""
    happened = reads(seed)
    losses = analyse(io.BytesIO(happened.capture()), "story").losses
    assert len(losses) == len(happened.backs)
    told = [loss for loss in losses if loss.answer == IMPLIED]
    assert {(loss.after, loss.before, loss.psn) for loss in told} <= happened.lost
    assert all(loss.response for loss in told)
    assert {(loss.after, loss.before) for loss in losses if loss.answer == TIMEOUT} <= {("C", None)}
