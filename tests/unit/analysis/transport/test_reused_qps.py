"""A QP number that a new connection uses again: its PSNs begin anew, and nothing was retransmitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.wire.opcodes import Opcode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, NAK, requests, timed

if TYPE_CHECKING:
    from collections.abc import Iterable

US: Final = 1000
SECOND: Final = 10**9


def connection(psns: Iterable[int], begin: int = 0, acks: int = 1) -> list[tuple[int, int, bytes]]:
    """SENDs 10 us apart, and an ACK for every ``acks`` of them, none if it is 0."""
    story = []
    for number, psn in enumerate(psns, 1):
        at = begin + number * 10 * US
        story.append((at, 0, packets.send(psn)))
        if acks and number % acks == 0:
            story.append((at + 5 * US, 0, packets.ack(psn)))
    return story


@pytest.mark.parametrize(
    ("first", "then", "acks"),
    [
        (range(1000, 1100), range(17, 77), 1),
        (range(100), range(60), 1),  # many programs begin with PSN 0
        (range(100), range(60), 16),
        (range(5_000_000, 5_000_100), range(17, 77), 0),
        (range(1000, 1100), range(3_000_000, 3_000_060), 1),
        (range(1000, 1100), range(3_000_000, 3_000_060), 0),
    ],
    ids=["lower", "same", "few ACKs", "far lower without ACKs", "far higher", "far higher without ACKs"],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_qp_number_that_is_used_again_resends_nothing(first: range, then: range, acks: int, times: int) -> None:
    """Without ACKs, the same PSNs again would be a retransmission."""
    times = times if acks else 1
    story = connection(first, acks=acks)
    for again in range(1, times + 1):
        story += connection(then, again * SECOND, acks)
    facts = timed(*story)
    flow = requests(facts)
    assert (flow.resent, flow.duplicates, flow.go_back_n, flow.late) == (0, 0, 0, 0)
    assert flow.messages == {"SEND": 100 + 60 * times}
    assert flow.payload == 100 * (100 + 60 * times)
    assert not facts.findings


def test_connections_in_different_rounds_are_told_apart() -> None:
    """8,192 packets are one round. The ACKs of the first connection are in the rounds before."""
    facts = timed(*connection(range(20_000, 32_000)), *connection(range(17, 77), SECOND))
    assert requests(facts).messages == {"SEND": 12_060}
    assert not facts.findings


def test_losses_in_a_new_connection_are_found() -> None:
    story = connection(range(1000, 1100))
    begin = SECOND
    for psn, late in ((17, 0), (18, 1), (20, 2)):
        story.append((begin + late * US, 0, packets.send(psn)))
    story += [
        (begin + 3 * US, 0, packets.ack(18)),
        (begin + 4 * US, 0, packets.ack(19, NAK)),
        *((begin + (5 + psn) * US, 0, packets.send(psn)) for psn in (19, 20, 21)),
        (begin + 40 * US, 0, packets.ack(21)),
    ]
    facts = timed(*story)
    assert [(step.psn, step.cause) for step in facts.go_back_n] == [(19, "PSN Sequence Error")]
    assert requests(facts).messages == {"SEND": 105}


@pytest.mark.parametrize("acked", [1049, 1089, 1099])
def test_requests_whose_acks_were_lost_are_retransmitted(acked: int) -> None:
    """The control: the responder answers each duplicate with the newest PSN that it has, 1099."""
    story = connection(range(1000, 1100))
    story += [(SECOND + psn * US, 0, packets.send(psn)) for psn in range(acked - 49, 1100)]
    story += [(SECOND + 2000 * US + number * US, 0, packets.ack(1099)) for number in range(1099 - acked + 50)]
    facts = timed(*story)
    assert [step.psn for step in facts.go_back_n] == [acked - 49]
    assert requests(facts).messages == {"SEND": 100}


def test_a_late_ack_with_the_messages_of_the_old_connection_is_none_of_a_new_one() -> None:
    """PSNs 3 to 29 are sent again, and then an ACK of PSN 10 arrives that another link delayed: its MSN is 11."""
    story = connection(range(30))
    story += [(MS + psn * US, 0, packets.send(psn)) for psn in range(3, 30)]
    aeth = (31 << 24 | 11).to_bytes(4)
    story.append((MS + 20 * US + 1, 0, packets.rocev2(packets.BACK, Opcode.RC_ACKNOWLEDGE, packets.QP1, 10, aeth)))
    story.append((2 * MS, 0, packets.ack(29)))
    facts = timed(*sorted(story))
    assert [step.psn for step in facts.go_back_n] == [3]
    assert requests(facts).messages == {"SEND": 30}
