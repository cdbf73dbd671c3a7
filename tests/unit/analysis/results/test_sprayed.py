"""Packets of one flow that are sprayed over parallel links: what one link lacks, the others have."""

from __future__ import annotations

import io
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import START, timed

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts

US: Final = 1000


def sprayed(links: int, *, acks: bool, without: range = range(0)) -> list[tuple[int, int, bytes]]:
    """400 SENDs over so many links. Every 16th one is ACKed at the first link; ``without`` are not captured."""
    draw, story = Random(1), []
    for psn in range(400):
        link = draw.randrange(links)
        if psn not in without:
            story.append((psn * 10 * US, link, packets.send(psn)))
        if acks and psn % 16 == 15:
            story.append((psn * 10 * US + 5 * US, 0, packets.ack(psn)))
    return story


@pytest.mark.parametrize("links", [2, 4])
@pytest.mark.parametrize("acks", [True, False])
def test_what_parallel_links_captured_is_not_missing(links: int, acks: bool) -> None:
    facts = timed(*sprayed(links, acks=acks), links=links)
    assert not facts.findings
    assert all(
        flow.beside >= flow.missing - 1 > 0 for flow in facts.flows if flow.messages and flow.qp == packets.QP2
    )


@pytest.mark.parametrize("acks", [True, False])
def test_what_no_link_captured_is_missing(acks: bool) -> None:
    """The control: the capture lacks every fourth packet at both links."""
    facts = timed(*sprayed(2, acks=acks, without=range(2, 400, 4)))
    (finding,) = facts.findings
    assert ("ACKed unseen" if acks else "missing in") in finding.what


def test_half_of_the_packets_at_one_link_alone_is_missing() -> None:
    """The control: the other parallel links were not captured."""
    facts = timed(*((psn * 10 * US, 0, packets.send(psn)) for psn in range(0, 400, 2)))
    assert "199 PSNs missing in 199 gaps" in facts.findings[0].what


@pytest.mark.parametrize("share", [0.6, 0.7])
@pytest.mark.parametrize("acks", [True, False])
def test_what_two_links_captured_of_the_same_packets_is_missing(share: float, acks: bool) -> None:
    """The control: both links have all packets, and each capture has a random part of them."""
    draw, story = Random(1), []
    for psn in range(400):
        story += [(psn * 10 * US + link * US, link, packets.send(psn)) for link in (0, 1) if draw.random() < share]
        if acks and psn % 16 == 15:
            story.append((psn * 10 * US + 5 * US, 0, packets.ack(psn)))
    facts = timed(*story)
    (finding,) = facts.findings
    assert ("ACKed unseen" if acks else "missing in") in finding.what


def test_requests_that_are_sprayed_and_sent_again_are_not_missing() -> None:
    """After every 40th request, the eight before it are sent again, each over any link."""
    draw, order = Random(2), []
    for psn in range(1600):
        order += [psn, *(range(psn - 7, psn + 1) if psn % 40 == 39 else ())]
    story = [(at * 10 * US, draw.randrange(4), packets.send(psn)) for at, psn in enumerate(order)]
    facts = timed(*story, links=4)
    assert all(flow.beside >= flow.missing - 1 > 0 for flow in facts.flows)


def reordered(*, nak: bool = False, answered: bool = True, lost: int | None = None) -> AnalysisFacts:
    """400 SENDs at the receiver's port, each up to six packets late; every eighth time all so far are ACKed."""
    draw, story, arrived, next_psn = Random(4), [], set(), 0
    order = [psn for _, psn in sorted((psn + draw.uniform(0, 6), psn) for psn in range(400) if psn != lost)]
    for place, psn in enumerate(order):
        arrived.add(psn)
        story.append((place * 10 * US, 0, packets.send(psn)))
        while next_psn in arrived:
            next_psn += 1
        if answered and place % 8 == 7 and next_psn:
            story.append((place * 10 * US + 4 * US, 0, packets.ack(next_psn - 1)))
    if nak:
        story.append((4000 * US, 0, packets.ack(0, 0x60)))
    return timed(*story)


def test_a_responder_that_accepts_any_order_has_no_problem() -> None:
    (finding,) = reordered().findings
    assert "packets out-of-order, and none was rejected" in finding.what
    assert finding.note


def test_what_came_late_is_not_missing() -> None:
    """Also where the answers are not captured, or have a NAK: then reordering is a problem."""
    for facts in (reordered(nak=True), reordered(answered=False)):
        assert not [found for found in facts.findings if "missing" in found.what]
        assert [found for found in facts.findings if "RC answers with NAKs" in found.meaning]
    (missing,) = [found for found in reordered(answered=False, lost=77).findings if "missing" in found.what]
    assert "1 PSN missing" in missing.what


def sent_again(silence: int) -> AnalysisFacts:
    """Ten of 80 SENDs are lost. The responder keeps the others, and the ten are sent again after a silence in ns."""
    story = [(psn * US, 0, packets.send(psn)) for psn in range(80) if not 59 <= psn < 70]
    story.append((80 * US, 0, packets.send(59)))  # late
    story.append((81 * US, 0, packets.ack(59)))
    story += [(80 * US + silence + psn * US, 0, packets.send(psn)) for psn in range(60, 70)]
    return timed(*story, (100 * US + silence + 80 * US, 0, packets.ack(79)))


def test_what_a_timer_sent_again_was_lost() -> None:
    """A responder that accepts any order sends no NAK for a loss either."""
    (found,) = sent_again(20 * US).findings
    assert found.note
    problems = [found for found in sent_again(5000 * US).findings if not found.note]
    assert any("10 packets" in found.what for found in problems), problems


def test_packets_that_the_file_has_after_their_ack_are_in_it() -> None:
    """Queues of a NIC are written in turn: 20 frames come 200 us later in the file than in time."""
    frames = [frame for psn in range(60) for frame in (packets.send(psn), packets.ack(psn))]
    taken = [
        Record(START + place * 10 * US, 0, len(frame), Direction.UNKNOWN, frame) for place, frame in enumerate(frames)
    ]
    taken[40:60], taken[60:80] = taken[60:80], taken[40:60]
    (finding,) = analyse(io.BytesIO(pcapng(taken)), "f").findings
    assert finding.note
    assert "10 packets not in time order in the file" in finding.what
    del taken[40:60]
    assert "ACKed unseen" in analyse(io.BytesIO(pcapng(taken)), "f").findings[0].what
