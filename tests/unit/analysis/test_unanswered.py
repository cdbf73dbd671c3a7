"""Requesters that ask again and hear nothing more: told where answers are captured, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, requests, timed

if TYPE_CHECKING:
    from lab.analysis.facts import Facts, Finding


def silent(facts: Facts) -> list[Finding]:
    return [found for found in facts.findings if "was not answered any more" in found.what]


def dying(*, answered: bool) -> Facts:
    """Two SENDs, of which the second one is asked for every 100 ms, and answered in the end or not."""
    asked = [(0, 0, packets.send(1)), (MS, 0, packets.ack(1))]
    asked += [(time * MS, 0, packets.send(2)) for time in (2, 102, 202, 302)]
    return timed(*asked, *([(303 * MS, 0, packets.ack(2))] if answered else []))


def test_a_peer_that_dies_is_told() -> None:
    facts = dying(answered=False)
    assert requests(facts).unanswered == pytest.approx(0.301)
    assert silent(facts)


def test_one_that_answers_in_the_end_is_not_dead() -> None:
    facts = dying(answered=True)
    assert requests(facts).unanswered == 0
    assert not silent(facts)


def test_where_answers_are_not_captured_nobody_is_called_dead() -> None:
    """A mirror of one direction."""
    facts = timed(*((time * MS, 0, packets.send(2)) for time in (2, 102, 202, 302)))
    assert requests(facts).unanswered == 0
    assert not silent(facts)


def test_an_answer_on_another_link_is_one() -> None:
    """ECMP has moved the answers meanwhile."""
    asked = [(0, 0, packets.send(1)), (MS, 0, packets.ack(1))]
    asked += [(time * MS, 0, packets.send(2)) for time in (2, 102, 202, 302)]
    facts = timed(*asked, (303 * MS, 1, packets.ack(2)))
    assert requests(facts).unanswered == 0
