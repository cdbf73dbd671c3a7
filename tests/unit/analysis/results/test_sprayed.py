"""Packets of one flow that are sprayed over parallel links: what one link lacks, the others have."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.unit.analysis import packets
from tests.unit.analysis.stories import timed

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
