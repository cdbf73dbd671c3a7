"""READs, whose answers are the data: lost ones, repeated ones, and their goodput."""

from __future__ import annotations

import pytest

from tests.unit.analysis import packets
from tests.unit.analysis.stories import requests, timed, told


def test_the_path_mtu_is_what_full_packets_show() -> None:
    """10000 bytes at 1024 are ten PSNs: a READ three further on is one that comes again, not the next one."""
    first = [packets.read(1, 10000), *packets.responses(1, 10)]
    facts = told([*first, packets.read(11, 10000), packets.read(14, 10000 - 3 * 1024)])
    assert (requests(facts).resent, requests(facts).gaps) == (1, 0)


def test_a_read_again_after_a_gap_in_responses_is_an_implied_nak() -> None:
    answers = packets.responses(1, 5)
    story = [packets.read(1, 5120), *answers[:2], *answers[3:], packets.read(3, 3072), *packets.responses(3, 3)]
    facts = told(story)
    assert [(step.psn, step.cause) for step in facts.go_back_n] == [(3, "implied NAK")]
    (answering,) = [flow for flow in facts.flows if flow.qp == packets.QP1]
    assert answering.response_gaps == 1
    assert answering.payload == 5 * 1024, "what came again counts once"


@pytest.mark.parametrize("more", [0, 2])
def test_a_read_that_is_asked_again_for_the_rest_is_no_selective_repeat(more: int) -> None:
    """What was lost came from the responder, which keeps nothing; whether or not READs behind it come again, too."""
    answers, after = packets.responses(1, 5), 6 + more
    behind = [packets.read(psn, 512) for psn in range(6, after)]
    story = [packets.read(1, 5120), *behind, *answers[:2], *answers[3:], packets.read(3, 3072)]
    facts = told([*story, *packets.responses(3, 3), packets.read(after, 512), packets.response(after)])
    flow = requests(facts)
    assert (flow.go_back_n, flow.repeats, flow.resent) == (1, 0, 1)
    assert facts.go_back_n[0].cause == "implied NAK"
    assert not any("selective repeat" in finding.meaning for finding in facts.findings)


@pytest.mark.parametrize("lost", [0, 4])
def test_a_lost_first_or_last_response_is_reported(lost: int) -> None:
    """The next READ is answered, and something of this one is missing."""
    answers = packets.responses(6, 5)
    del answers[lost]
    story = [packets.read(1, 5120), *packets.responses(1, 5), packets.read(6, 5120), packets.read(11, 5120)]
    facts = told([*story, *answers, *packets.responses(11, 5)])
    assert sum(flow.response_gaps for flow in facts.flows) == 1


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_only_response_is_reported(lost: int) -> None:
    """Four READs of one packet each, one of which gets no answer."""
    story = [packets.read(psn, 512) for psn in range(1, 5)]
    facts = told([*story, *(packets.response(psn) for psn in range(1, 5) if psn != lost)])
    assert sum(flow.response_gaps for flow in facts.flows) == 1
    whole = told([*story, *(packets.response(psn) for psn in range(1, 5))])
    assert not any(flow.response_gaps for flow in whole.flows)


def test_reads_have_a_goodput() -> None:
    """Four of 512 bytes in 4 us after the first request."""
    story = [(0, 0, packets.read(1, 512)), *((1000 * psn, 0, packets.response(psn)) for psn in (1, 2, 3))]
    facts = timed(*story, (3500, 0, packets.read(4, 512)), (4000, 0, packets.response(4)))
    assert requests(facts).read_goodput == pytest.approx(4 * 512 * 8 / 4e-6)


@pytest.mark.parametrize(("reads", "seconds"), [(1, 100e-6), (2, 201e-6)])
def test_a_read_lasts_until_its_responses_have_come(reads: int, seconds: float) -> None:
    """All are asked for within 1 us, and their answers of 100 packets each, 1 us apart, follow."""
    asked = [packets.read(1 + 100 * number, 100 * 1024) for number in range(reads)]
    came = [frame for number in range(reads) for frame in packets.responses(1 + 100 * number, 100)]
    facts = told([*asked, *came])
    assert requests(facts).read_goodput == pytest.approx(reads * 100 * 1024 * 8 / seconds)
    (answering,) = facts.over_time.flows[-1:]
    assert answering.peak >= requests(facts).read_goodput
