"""Requesters that ask again and hear nothing more: told where answers are captured, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from lab.analysis.flows.streams import Streams
from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, requests, timed

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding


def silent(facts: AnalysisFacts) -> list[CaptureFinding]:
    return [found for found in facts.findings if "twice or more without an answer" in found.what]


def dying(*, answered: bool) -> AnalysisFacts:
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


def never(facts: AnalysisFacts) -> list[CaptureFinding]:
    return [found for found in facts.findings if "never answered" in found.what]


def asked_again(frames: list[bytes], *others: tuple[int, int, bytes], times: int = 3) -> AnalysisFacts:
    """A request that is sent ``times`` times, 500 ms apart, beside what ``others`` do."""
    asked = [
        (time * 500 * MS + place, 0, frame) for time in range(1, times + 1) for place, frame in enumerate(frames)
    ]
    return timed(*sorted([*others, *asked]))


ANSWERED = ((0, 0, packets.send(5, qp=0x300)), (MS, 0, packets.ack(5, qp=0x200)))
"""Another QP of the same hosts."""


@pytest.mark.parametrize(
    "frames",
    [[packets.send(9)], packets.write(0xFFFFFE, 4), [packets.read(9, 2048)], [packets.send(9, path=packets.THERE6)]],
)
def test_a_qp_that_is_never_answered_is_told_where_others_are(frames: list[bytes]) -> None:
    (other,) = [(2 * MS, 0, packets.send(1, path=packets.Path("2001:db8::7", "2001:db8::1"), qp=7))]
    facts = asked_again(frames, *ANSWERED, other)
    (finding,) = never(facts)
    assert "QP 0x22" in finding.what
    assert "status 12" in finding.meaning
    assert not any("lost or reordered" in found.meaning for found in facts.findings)
    assert next(flow for flow in facts.flows if flow.qp == packets.QP2).never_answered > 0.9


def test_answers_of_another_host_show_that_they_would_be_seen() -> None:
    """Nothing at all comes from the responder, but on the requester's own link others' packets do."""
    other = packets.Path("10.0.0.3", "10.0.0.1")
    assert never(asked_again([packets.send(9)], (0, 0, packets.ack(5, qp=0x200, path=other))))


def test_a_qp_that_is_answered_after_its_retries_is_not_called_never_answered() -> None:
    late = (1501 * MS, 0, packets.ack(9))
    assert not never(asked_again([packets.send(9)], *ANSWERED, late))


def test_one_direction_or_one_retry_are_not_enough() -> None:
    assert not never(asked_again([packets.send(9)]))
    assert not never(asked_again([packets.send(9)], *ANSWERED, times=2))


@pytest.mark.parametrize(
    "frames", [[packets.send(9)], packets.write(0xFFFFFE, 4), [packets.read(9, 2048)]], ids=["send", "write", "read"]
)
def test_a_capture_without_any_answer_names_both_explanations(frames: list[bytes]) -> None:
    """The whole host is down, or a mirror has one direction: neither is a loss that a retransmission mended."""
    (finding,) = asked_again(frames).findings
    assert "and the capture has no answer" in finding.what
    assert "status 12" in finding.meaning
    assert "only one direction" in finding.meaning


def test_flows_in_reverse_are_searched_once_for_two_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for each flow is quadratic: 2,000 QPs in each direction took a minute and a half of a core."""
    qps = range(0x100, 0x110)
    retried = [(time * 500 * MS + qp, 0, packets.send(9, qp=qp)) for time in range(3) for qp in qps]
    others = [(2000 * MS + qp, 0, packets.send(9, qp=0x200 + qp, path=packets.BACK)) for qp in qps]
    facts = timed(*retried, *others)
    search = Mock()
    monkeypatch.setattr(Streams, "back", search)
    assert len(list(facts.flows)) == 2 * len(qps)
    search.assert_not_called()


def test_one_direction_of_a_flow_that_continues_has_losses() -> None:
    """What the requester sends after its retries shows that it was answered."""
    facts = asked_again([packets.send(9)], (1600 * MS, 0, packets.send(10)))
    assert not any("no answer" in found.what for found in facts.findings)
    assert any("lost or reordered" in found.meaning for found in facts.findings)


def connecting(*others: tuple[int, int, bytes], times: int = 4, vxlan: bool = False) -> list[CaptureFinding]:
    """A connection manager that sends its REQ every 4 s; both links of a router see each."""
    frame = packets.request_connection(1, 0x11, 0)
    frame = packets.vxlan(frame) if vxlan else frame
    asked = [(time * 4000 * MS + link, link, frame) for time in range(times) for link in (0, 1)]
    facts = timed(*sorted([*others, *asked]))
    return [found for found in facts.findings if "connection request" in found.what]


@pytest.mark.parametrize("vxlan", [False, True])
def test_a_connection_request_that_nobody_answers_is_told(vxlan: bool) -> None:
    (finding,) = connecting(vxlan=vxlan)
    assert "was sent 4 times without an answer" in finding.what
    assert ("in VNI 10" in finding.what) is vxlan


def test_one_that_another_s_answer_belongs_to_is_still_unanswered() -> None:
    other = (5 * MS, 0, packets.accept_connection(9, 2, 0x22, 0))
    assert connecting(other)


@pytest.mark.parametrize("attribute", [0x11, 0x12, 0x13], ids=["MRA", "REJ", "REP"])
def test_a_request_with_any_answer_is_not_called_unanswered(attribute: int) -> None:
    answer = packets.management(packets.BACK, attribute, bytes.fromhex("0000000900000001").ljust(60, bytes(1)))
    assert not connecting((9000 * MS, 0, answer), times=3)


def test_an_answer_to_an_earlier_transaction_answers_no_later_one() -> None:
    """A manager that was restarted uses its communication IDs again."""
    body = bytes.fromhex("0000000900000001").ljust(60, bytes(1))
    assert connecting((5 * MS, 0, packets.management(packets.BACK, 0x13, body, transaction=4)))


def test_requests_of_several_transactions_are_not_one_that_is_sent_again() -> None:
    asked = [packets.request_connection(1, 0x11, 0, transaction=number) for number in range(4)]
    facts = timed(*[(number * 4000 * MS, 0, frame) for number, frame in enumerate(asked)])
    assert not [found for found in facts.findings if "connection request" in found.what]


def test_two_transmissions_of_a_request_are_not_enough() -> None:
    assert not connecting(times=2)


def test_a_requester_that_goes_on_has_its_answers_elsewhere() -> None:
    """Two losses are mended, then new packets follow: something answered, though not here."""
    assert not never(asked_again([packets.send(9)], *ANSWERED, (1600 * MS, 0, packets.send(10))))


@pytest.mark.parametrize(
    ("reason", "said", "remedy"),
    [
        (8, "invalid service ID", "no program listens there"),
        (28, "consumer reject", "look at its log"),
        (999, "reserved reason", "does not accept the request"),
    ],
)
def test_a_rejected_connection_is_named_with_its_reason_once(reason: int, said: str, remedy: str) -> None:
    """A REJ is an answer. Two attempts at two links are two, not four."""
    attempts = [
        frame
        for number in (5, 6)
        for frame in (
            packets.request_connection(number, 0x11, 0, transaction=number),
            packets.reject_connection(reason, number, transaction=number),
        )
    ]
    facts = timed(*((place * MS + link, link, frame) for place, frame in enumerate(attempts) for link in (0, 1)))
    (finding,) = facts.findings
    assert "10.0.0.2 rejects connections of 10.0.0.1" in finding.what
    assert f"{said} (CM REJ, reason {reason}), 2 times" in finding.what
    assert remedy in finding.meaning


def test_an_accepted_connection_is_no_rejected_one() -> None:
    frames = [packets.request_connection(5, 0x11, 0), packets.accept_connection(6, 5, 0x22, 9), packets.send(0)]
    facts = timed(*((place * MS, 0, frame) for place, frame in enumerate([*frames, packets.ack(0)])))
    assert facts.rejected_connections == ()
    assert facts.findings == ()
