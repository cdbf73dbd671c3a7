"""What a receiver took, and what a sender sent again and why, by arithmetic on PSNs."""

from __future__ import annotations

import io

import pytest

from lab.analysis.analyser import Analyser
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.stories import MS, NAK, requests, swapped, timed, told


@pytest.mark.parametrize("chunk", [1024, 4096, 65536, 2**20])
def test_an_ack_credits_everything_up_to_its_psn_whatever_the_buffer(chunk: int) -> None:
    flow = requests(told(swapped(), chunk))
    assert flow.messages == {"SEND": 1000}
    assert flow.payload == 1000 * 100
    assert (flow.late, flow.out_of_sequence, flow.go_back_n) == (1, 0, 0)


def test_a_nak_credits_what_is_before_its_psn() -> None:
    """2 is overtaken by 3 and both have arrived when 5 is found to be missing."""
    story = [packets.send(psn) for psn in (1, 3, 2, 4, 6)] + [packets.ack(5, NAK)]
    assert requests(told(story)).messages == {"SEND": 4}


def test_what_nobody_acknowledged_is_not_credited() -> None:
    flow = requests(told([packets.send(psn) for psn in (1, 2, 4, 5, 6)]))
    assert (flow.messages, flow.out_of_sequence) == ({"SEND": 2}, 3)


def test_every_one_of_400_naks_explains_its_step_back() -> None:
    story = [packets.send(1), packets.ack(1)]
    for psn in range(2, 1202, 3):
        story += [packets.send(psn), packets.send(psn + 2), packets.ack(psn + 1, NAK)]
        story += [packets.send(psn + 1), packets.send(psn + 2), packets.ack(psn + 2)]
    facts = told(story)
    assert [step.cause for step in facts.go_back_n] == ["PSN Sequence Error"] * 400


def test_a_nak_is_used_up_and_has_its_time() -> None:
    """PSN 2 is lost, asked for, lost again, and comes a third time when the timer expires 500 ms later."""
    lost = [(0, 0, packets.send(1)), (1, 0, packets.send(2)), (2, 0, packets.send(3)), (10, 0, packets.ack(2, NAK))]
    again = [(20, 0, packets.send(2)), (21, 0, packets.send(3))]
    late = [(500 * MS, 0, packets.send(2)), (500 * MS + 1, 0, packets.send(3)), (500 * MS + 9, 0, packets.ack(3))]
    assert [step.cause for step in timed(*lost, *again, *late).go_back_n] == ["PSN Sequence Error", "timeout"]
    assert [step.cause for step in timed(*lost, *late).go_back_n] == ["timeout"], "a NAK half a second ago"


def test_data_and_nak_on_different_links() -> None:
    """ECMP sends the answers of leaf1:swp1 over leaf1:swp2."""
    story = [(psn, 0, packets.send(psn)) for psn in (1, 2, 3, 4)]
    story += [
        (10, 1, packets.ack(3, NAK)),
        (20, 0, packets.send(3)),
        (21, 0, packets.send(4)),
        (30, 1, packets.ack(4)),
    ]
    facts = timed(*story)
    assert [step.cause for step in facts.go_back_n] == ["PSN Sequence Error"]
    assert requests(facts).round_trip.count == 0, "both were sent twice (Karn)"
    assert requests(facts).peer == packets.QP1


def test_only_the_lost_packet_again_is_selective_repeat() -> None:
    before_the_loss = [packets.send(psn) for psn in (1, 2, 3, 4, 5)]
    behind_the_loss = [packets.send(psn) for psn in (1, 2, 4, 5)]
    for story in (before_the_loss, behind_the_loss):
        facts = told([*story, packets.ack(3, NAK), packets.send(3), packets.send(6), packets.ack(6)])
        flow = requests(facts)
        assert (flow.repeats, flow.go_back_n, flow.late) == (1, 0, 0)
        assert (flow.resent, flow.messages) == (1, {"SEND": 6})
        (step,) = facts.go_back_n
        assert (step.psn, step.packets, step.alone, step.cause) == (3, 1, True, "PSN Sequence Error")


def test_a_nak_for_what_was_only_overtaken_is_still_answered() -> None:
    """3 comes behind 4, but the NAK is under way: the requester goes back all the same."""
    story = [packets.send(psn) for psn in (1, 2, 4)] + [packets.ack(3, NAK), packets.send(3), packets.send(5)]
    facts = told([*story, *(packets.send(psn) for psn in (3, 4, 5, 6)), packets.ack(6)])
    flow = requests(facts)
    assert (flow.late, flow.repeats, flow.go_back_n) == (1, 0, 1)
    assert facts.go_back_n[0].cause == "PSN Sequence Error"


def test_a_go_back_n_of_which_only_the_first_packet_arrived_is_no_selective_repeat() -> None:
    """3, 4 and 5 are sent again, 4 and 5 are lost again, and 6 shows it: the responder asks for 4."""
    story = [packets.send(psn) for psn in (1, 2, 4, 5)] + [packets.ack(3, NAK), packets.send(3), packets.send(6)]
    facts = told([*story, packets.ack(4, NAK), *(packets.send(psn) for psn in (4, 5, 6, 7)), packets.ack(7)])
    flow = requests(facts)
    assert (flow.repeats, flow.go_back_n, flow.messages) == (0, 2, {"SEND": 7})


def test_what_waits_for_an_ack_is_bounded_over_all_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 flows with a gap each, and behind it 20 packets that no ACK comes for: no more than 100 are kept."""
    monkeypatch.setattr("lab.analysis.transport.psn_order.MAX_WAITING", 100)
    story = [packets.send(psn, 4, qp=qp) for psn in (1, *range(3, 23)) for qp in range(100, 150)]
    analyser = Analyser()
    analyser.run(io.BytesIO(pcapng(records(story))), "story")
    assert len(analyser.order.sequences) == 50
    assert sum(sequence.waiting for sequence in analyser.order.sequences.values()) <= 100
