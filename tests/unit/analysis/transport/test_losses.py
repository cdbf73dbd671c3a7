"""Where packets were lost, from captures of several links in which they were lost at a place that is known."""

from __future__ import annotations

import pytest

from lab.analysis.transport import flow_events
from lab.analysis.transport.loss_causes import COUNTERS, DUPLICATE
from lab.rdma.device_counters import MEANINGS
from tests.unit.analysis import packets
from tests.unit.analysis.journeys import LINKS, STEP, Journeys

NAK, MS = 0x60, 1_000_000


def go_back(lost: int, count: int = 1) -> Journeys:
    """40 to 47, of which 42 and what follows are lost behind ``lost`` links; NAK 42, and 42 to 47 again."""
    story = Journeys()
    for psn in range(40, 48):
        story.there((psn - 40) * 10_000, packets.send(psn), lost=lost if 42 <= psn < 42 + count else None)
    story.back(90_000, packets.ack(42, NAK))
    for psn in range(42, 48):
        story.there(100_000 + (psn - 42) * 10_000, packets.send(psn))
    story.back(200_000, packets.ack(47))
    return story


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_loss_is_between_the_last_link_that_saw_the_packet_and_the_next(lost: int) -> None:
    (loss,) = go_back(lost).told().losses
    assert (loss.psn, loss.count, loss.after, loss.before) == (42, 1, LINKS[lost - 1], LINKS[lost])
    assert (loss.answer, loss.resent, loss.qp) == ("PSN Sequence Error", 6, packets.QP2)
    assert loss.time == pytest.approx(100e-6)
    assert loss.waited == pytest.approx(70e-6), "43 showed it 30 us after the start, 42 came again at 100 us"


def test_several_psns_in_a_row_are_one_loss() -> None:
    (loss,) = go_back(2, count=3).told().losses
    assert (loss.psn, loss.count, loss.after, loss.before) == (42, 3, LINKS[1], LINKS[2])


def test_a_loss_before_the_first_link_has_no_link_before_it() -> None:
    """The requester sent them all, and the first link of the capture misses one."""
    story = Journeys(LINKS[1:])
    story.taken = [(time, link - 1, way, frame) for time, link, way, frame in go_back(1).taken if link]
    (loss,) = story.told().losses
    assert (loss.after, loss.before) == (None, LINKS[1])


def tail(lost: int | None, answered: int | None = None) -> Journeys:
    """1 and 2; 2 is the last and is lost, or its ACK; 67 ms later it comes again."""
    story = Journeys()
    story.there(0, packets.send(1))
    story.back(5_000, packets.ack(1))
    story.there(10_000, packets.send(2), lost=lost)
    if lost is None:
        story.back(20_000, packets.ack(2), lost=answered)
    story.there(10_000 + 67 * MS, packets.send(2))
    story.back(20_000 + 67 * MS, packets.ack(2))
    return story


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_the_last_packet_leaves_no_gap_and_is_found_all_the_same(lost: int) -> None:
    (loss,) = tail(lost).told().losses
    assert (loss.psn, loss.after, loss.before, loss.answer) == (2, LINKS[lost - 1], LINKS[lost], "timeout")
    assert loss.waited == pytest.approx(67e-3)


@pytest.mark.parametrize("answered", [0, 2])
def test_where_every_link_saw_it_the_answer_may_have_been_lost(answered: int) -> None:
    facts = tail(None, answered).told()
    (loss,), (cause,) = facts.losses, facts.causes
    assert (loss.after, loss.before) == (LINKS[3], None)
    assert (
        "PSN 2, 10.0.0.1 to 10.0.0.2 QP 0x22, lost behind leaf2:swp3, or its answer was: no answer until"
        in cause.what
    )
    assert "duplicate_request (responder)" in cause.what


def test_a_retransmission_that_is_lost_too_is_a_second_loss() -> None:
    """42 is lost behind leaf1, and again behind spine1; then a timer expires."""
    story = go_back(2)
    story.taken = [event for event in story.taken if event[0] < 90_000 + 4 * STEP]
    story.there(100_000, packets.send(42), lost=3)
    for psn in range(43, 48):
        story.there(100_000 + (psn - 42) * 10_000, packets.send(psn))
    for psn in range(42, 48):
        story.there(500 * MS + psn * 10_000, packets.send(psn))
    first, second = story.told().losses
    assert (first.after, first.before, first.answer) == (LINKS[1], LINKS[2], "PSN Sequence Error")
    assert (second.psn, second.answer) == (42, "timeout")
    assert (second.after, second.before) == (LINKS[2], LINKS[3])


def test_nothing_is_lost_where_packets_come_late_or_are_refused() -> None:
    story = Journeys()
    for at, psn in enumerate((1, 2, 4, 3, 5)):
        story.there(at * 10_000, packets.send(psn))
    story.back(60_000, packets.ack(5))
    story.there(70_000, packets.send(6))
    story.back(80_000, packets.ack(6, 0x2E))
    story.there(200_000, packets.send(6))
    assert not story.told().losses


def test_one_link_knows_no_place() -> None:
    story = Journeys(LINKS[:1])
    story.taken = [event for event in go_back(1).taken if event[1] == 0]
    facts = story.told()
    assert facts.go_back_n
    assert not facts.losses


def overlaid(story: Journeys) -> Journeys:
    """The same, where the links between switches carry it in VXLAN."""
    story.taken = [
        (t, link, way, packets.vxlan(frame) if link in {1, 2} else frame) for t, link, way, frame in story.taken
    ]
    return story


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_an_overlay_on_the_way_changes_nothing(lost: int) -> None:
    plain, tunnelled = go_back(lost).told(), overlaid(go_back(lost)).told()
    assert tunnelled.causes == plain.causes
    (said,) = [finding.what for finding in tunnelled.findings if "go-back-N" in finding.what]
    assert "1 go-back-N episode, 6 packets retransmitted" in said


def test_tenants_that_are_alike_are_not_one() -> None:
    """The same addresses and QPs in two segments, and each has lost a packet."""
    two = [
        (t + vni, link, way, packets.vxlan(frame, vni))
        for vni in (10, 11)
        for t, link, way, frame in go_back(1).taken
        if link in {1, 2}
    ]
    story = Journeys()
    story.taken = two
    (said,) = [finding.what for finding in story.told().findings if "go-back-N" in finding.what]
    assert "2 flows" in said
    assert "2 go-back-N episodes, 12 packets retransmitted" in said


def test_losses_that_are_each_asked_for_alone_are_two() -> None:
    """Selective repeat: 42 is lost behind leaf1, 45 behind spine1, and both come again before anything new does."""
    story = Journeys()
    for psn in range(40, 48):
        story.there((psn - 40) * 10_000, packets.send(psn), lost={42: 2, 45: 3}.get(psn))
    for at, psn in ((90_000, 42), (110_000, 45)):
        story.back(at, packets.ack(psn, NAK))
        story.there(at + 10_000, packets.send(psn))
    story.there(130_000, packets.send(48))
    story.back(140_000, packets.ack(48))
    facts = story.told()
    places = [(loss.psn, loss.after, loss.before, loss.answer, loss.resent) for loss in facts.losses]
    assert places == [
        (42, LINKS[1], LINKS[2], "PSN Sequence Error", 1),
        (45, LINKS[2], LINKS[3], "PSN Sequence Error", 1),
    ]
    requester = next(flow for flow in facts.flows if flow.link == LINKS[0] and flow.messages)
    assert (requester.repeats, requester.go_back_n, requester.resent) == (2, 0, 2)


@pytest.mark.parametrize("overlay", [False, True])
def test_a_lost_response_of_a_read_is_found_on_its_way_back(*, overlay: bool) -> None:
    """Three responses, the second of which is lost behind spine1; the requester asks again from there."""
    story = Journeys()
    story.there(0, packets.read(1, 3072))
    for index, frame in enumerate(packets.responses(1, 3)):
        story.back(10_000 + index * 10_000, frame, lost=2 if index == 1 else None)
    story.there(50_000, packets.read(2, 2048))
    for index, frame in enumerate(packets.responses(2, 2)):
        story.back(60_000 + index * 10_000, frame)
    (loss,) = (overlaid(story) if overlay else story).told().losses
    assert loss.response
    assert (loss.answer, loss.after, loss.before) == ("implied NAK", LINKS[2], LINKS[1])


def test_the_cause_is_one_sentence() -> None:
    (cause,) = go_back(2).told().causes
    assert cause.what == (
        "PSN 42, 10.0.0.1 to 10.0.0.2 QP 0x22, lost between leaf1:swp1 and spine1:swp2: the responder answered NAK, "
        "PSN Sequence Error, 6 packets were retransmitted after 70 us; counted by ConnectX: out_of_sequence "
        "(responder), packet_seq_err (requester), by rxe: out_of_seq_request (responder), rcvd_seq_err and "
        "completer_retry_err (requester)"
    )


def test_300_losses_at_one_place_are_one_cause() -> None:
    story = Journeys()
    for qp in range(300):
        for psn in (1, 2, 3):
            story.there(psn * 10_000 + qp, packets.send(psn, qp=qp + 100), lost=2 if psn == 2 else None)
        for psn in (2, 3):
            story.there(psn * 10_000 + 90_000 + qp, packets.send(psn, qp=qp + 100))
    facts = story.told()
    (cause,) = facts.causes
    assert (cause.losses, cause.flows, cause.resent) == (300, 300, 600)
    assert len(facts.losses) == 300
    assert cause.what.startswith(
        "300 losses of 300 flows, the first PSN 2, 10.0.0.1 to 10.0.0.2 QP 0x64, lost between"
    )


def test_rxes_counters_are_those_that_rxe_has() -> None:
    told = [counter for counters in COUNTERS.values() for counter in counters]
    assert {counter.rxe for counter in (*told, DUPLICATE)} <= set(MEANINGS)
    for counter in told:
        assert not counter.mlx5 or counter.mlx5 in {MEANINGS[counter.rxe].mlx5, "implied_nak_seq_err"}


def test_events_that_were_not_kept_make_no_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are kept: no loss is told of from half of what is known."""
    monkeypatch.setattr(flow_events, "MAX_EVENTS", 2000)
    story = Journeys()
    for turn in range(700):
        base, time = turn * 3, turn * 200_000
        for psn in (1, 2, 3):
            story.there(time + psn * 10_000, packets.send(base + psn), lost=2 if psn == 2 else None)
        story.back(time + 50_000, packets.ack(base + 2, NAK))
        for psn in (2, 3):
            story.there(time + 60_000 + psn * 10_000, packets.send(base + psn))
    facts = story.told()
    assert 200 < len(facts.losses) < 700
    (cause,) = facts.causes
    assert (cause.after, cause.before) == (LINKS[1], LINKS[2])
