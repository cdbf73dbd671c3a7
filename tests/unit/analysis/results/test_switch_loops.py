"""Loops of switches: a request returns unchanged, faster than any requester retransmits it; and lookalikes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pytest

from lab.wire.opcodes import Opcode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, requests, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.analysis.results.analysis_facts import AnalysisFacts

US: Final = 1000
IDENT: Final = 14 + 4
"""Where a frame has IPv4's Identification."""


def circling(*frames: bytes, passes: int = 200, every: int = 2 * US) -> list[tuple[int, int, bytes]]:
    return [(turn * every + place * 100, 0, frame) for turn in range(passes) for place, frame in enumerate(frames)]


def loops(facts: AnalysisFacts) -> list[str]:
    return [found.what for found in facts.findings if " in a loop" in found.what]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [(US, 0, packets.ack(9))],
        [(number * US - MS, 0, packets.send(number)) for number in range(1, 9)],
        [(number * US - MS, 0, packets.ack(number)) for number in range(1, 9)],
    ],
    ids=["alone", "answered", "requests before", "answers before"],
)
def test_a_request_that_returns_unchanged_is_in_a_loop(others: list[tuple[int, int, bytes]]) -> None:
    facts = timed(*sorted([*others, *circling(packets.send(9))]))
    (loop,) = facts.loops
    assert (loop.switched, loop.psn, loop.packets, loop.hops, loop.links[0].times) == (True, 9, 1, 0, 200)
    (finding,) = facts.findings
    assert "1 packet in a loop: PSN 9 passed leaf1:swp1 200 times, with the same TTL each time" in finding.what
    assert "spanning tree" in finding.meaning
    assert requests(facts).looped == 1


def test_several_packets_may_circle_and_the_one_with_most_passes_is_named() -> None:
    frames = circling(*packets.write(20, 3)) + circling(packets.send(30), passes=300)
    (what,) = loops(timed(*sorted(frames)))
    assert "4 packets in a loop: PSN 30 passed leaf1:swp1 300 times" in what


def test_the_passes_of_several_rounds_are_added() -> None:
    facts = timed(*circling(packets.send(9), passes=20_000))
    assert (facts.loops[0].packets, facts.loops[0].links[0].times) == (1, 20_000)


def test_retransmissions_as_fast_as_a_timer_allows_are_none() -> None:
    """The shortest RNR timer is 10 us (IBA vol. 1 table 47), and a requester may retry without limit."""
    facts = timed(*circling(packets.send(9), every=10 * US))
    assert not loops(facts)
    assert facts.go_back_n


def answered() -> list[tuple[int, int, bytes]]:
    """Eight requests with their ACKs, before those that circle."""
    exchange = ((packets.send(psn), packets.ack(psn)) for psn in range(1, 9))
    return [(place * US - MS, 0, frame) for place, frame in enumerate(frame for pair in exchange for frame in pair)]


@pytest.mark.parametrize(("every", "number"), [(50, 1), (900, 1), (80, 40)])
def test_a_slow_loop_is_none_of_retries_if_the_responder_sends_no_nak(every: int, number: int) -> None:
    """A requester retries seven times at most; a loop that is full needs long for each round."""
    frames = [packets.send(psn) for psn in range(9, 9 + number)]
    again = (every * 50 * US, 0, packets.ack(8))  # the responder is heard meanwhile
    facts = timed(*sorted([*answered(), *circling(*frames, passes=100, every=every * US), again]))
    (what,) = loops(facts)
    assert f"{number} packet{'s' * (number > 1)} in a loop" in what
    assert "100 times, with the same TTL each time" in what
    assert not [found for found in facts.findings if "go-back-N" in found.what]


@pytest.mark.parametrize("every", [2, 9])
def test_a_fast_loop_is_certain_although_the_responder_is_not_heard(every: int) -> None:
    """No requester retransmits that soon, whatever the responder answers."""
    facts = timed(*answered(), *circling(packets.send(9), every=every * US))
    assert [(loop.psn, loop.certain) for loop in facts.loops] == [(9, True)]


@pytest.mark.parametrize("late", [[], [(5 * US, 0, packets.ack(8))]], ids=["silent", "an ACK in flight"])
def test_a_slow_loop_of_a_responder_that_is_not_heard_is_not_certain(late: list[tuple[int, int, bytes]]) -> None:
    """Retries after RNR NAKs look alike if the NAKs took another path than the ACKs before."""
    (finding,) = timed(*sorted([*answered(), *circling(packets.send(9), every=50 * US), *late])).findings
    assert finding.unjudged
    assert "1 packet may be in a loop: PSN 9 passed leaf1:swp1 200 times" in finding.what
    assert "retries" in finding.meaning


def datagram(psn: int, qp: int = packets.QP2, source: int = 0x77) -> bytes:
    return packets.rocev2(packets.THERE, Opcode.UD_SEND_ONLY, qp, psn, struct.pack("!II", 1, source), size=100)


@pytest.mark.parametrize("every", [2, 500])
def test_a_datagram_that_repeats_is_in_a_loop(every: int) -> None:
    """Nobody sends one again, so that the file needs nothing else."""
    facts = timed(*circling(datagram(9), every=every * US))
    assert [(loop.psn, loop.certain, loop.links[0].times) for loop in facts.loops] == [(9, True, 200)]
    assert "in a loop" in facts.findings[0].what


@pytest.mark.parametrize(
    "frames",
    [
        [datagram(psn) for psn in range(200)],
        [datagram(psn) for psn in range(50) for _ in range(4)],
        [datagram(0, qp=1)] * 200,
        [datagram(0, source=0x100 + sender) for sender in range(64)],
    ],
    ids=["each once", "a mirror of four ports", "management", "the first ones of many senders"],
)
def test_datagrams_that_do_not_repeat_are_in_none(frames: list[bytes]) -> None:
    assert not timed(*((at * US, 0, frame) for at, frame in enumerate(frames))).loops


def test_slow_retries_are_none() -> None:
    """Seven retries of a silent responder, and any number after RNR NAKs."""
    retried = circling(packets.send(9), passes=8, every=50 * US)
    assert not loops(timed(*answered(), *retried))
    assert not loops(
        timed(*answered(), *sorted((time + port, 0, frame) for time, _, frame in retried for port in range(4)))
    )
    refused = [(time + US, link, packets.ack(9, 0x21)) for time, link, _ in circling(packets.send(9), every=50 * US)]
    assert not loops(timed(*sorted([*answered(), *circling(packets.send(9), every=50 * US), *refused])))


def test_rnr_naks_at_another_link_explain_retries() -> None:
    """The ACKs of before took the requests' link, for example because a path has changed since."""
    retried = circling(packets.send(9), every=50 * US)
    refused = [(time + US, 1, packets.ack(9, 0x21)) for time, _, _ in retried]
    assert not loops(timed(*sorted([*answered(), *retried, *refused])))


def test_packets_that_a_host_numbers_anew_are_none() -> None:
    """rxe gives each retransmission another Identification. A switch does not change it."""
    frame = packets.send(9)
    again = [
        (time, link, frame[:IDENT] + number.to_bytes(2, "big") + frame[IDENT + 2 :])
        for number, (time, link, _) in enumerate(circling(frame), 1)
    ]
    assert not loops(timed(*again))


def test_answers_that_repeat_are_none() -> None:
    """A responder answers each duplicate request with the same ACK."""
    requested = [(time, 0, packets.send(psn)) for psn in range(1, 200) for time in (psn * US,)]
    assert not loops(timed(*sorted([*requested, *circling(packets.ack(9))])))


def test_a_mirror_of_four_ports_shows_none() -> None:
    frames = [(psn * 20 * US + copy * 100, 0, packets.send(psn)) for psn in range(1, 50) for copy in range(4)]
    assert not loops(timed(*frames))


def test_files_that_were_concatenated_show_none() -> None:
    assert not loops(timed(*[(psn * MS, 0, packets.send(psn)) for _ in range(20) for psn in range(1, 20)]))


@pytest.mark.parametrize("every", [5, 60, 500])
def test_a_window_that_is_resent_as_its_acks_arrive_one_by_one_is_in_none(every: int) -> None:
    """A slow responder and a short timeout: the last packet of the window is resent once for each ACK before it."""
    story = answered()
    for turn in range(64):
        at = turn * every * US
        story += [(at + place * 20, 0, packets.send(psn)) for place, psn in enumerate(range(9 + turn, 73))]
        story.append((at + 2 * US, 0, packets.ack(9 + turn)))
    facts = timed(*sorted(story))
    assert not facts.loops
    assert facts.go_back_n


def test_a_request_in_a_loop_beside_acks_of_others_is_found() -> None:
    """The control: ACKs of the requests before it and after it arrive while it circles."""
    others = [(psn * 50 * US + late, 0, frame) for psn in range(10, 40)
              for late, frame in ((0, packets.send(psn)), (US, packets.ack(psn)))]  # fmt: skip
    facts = timed(*sorted([*answered(), *circling(packets.send(9), passes=100, every=50 * US), *others]))
    assert [(loop.psn, loop.certain) for loop in facts.loops] == [(9, True)]


@pytest.mark.parametrize(
    "frame",
    [packets.ack(8), packets.ack(8, 0x21), packets.congestion(), packets.response(3)],
    ids=["ACK", "RNR NAK", "CNP", "READ response"],
)
@pytest.mark.parametrize("every", [2, 50])
def test_answers_that_repeat_more_often_than_anything_causes_them_are_in_a_loop(frame: bytes, every: int) -> None:
    facts = timed(*sorted([*answered(), *circling(frame, every=every * US)]))
    (loop,) = facts.loops
    times = 200 + (frame == packets.ack(8))  # and the one that did not circle
    assert (loop.switched, loop.certain, loop.links[0].times) == (True, True, times)
    (what,) = loops(facts)
    assert what.startswith("10.0.0.2 to 10.0.0.1 QP 0x11: 1 packet in a loop: PSN ")


def test_acks_alone_may_be_in_a_loop() -> None:
    """Or they answer requests that were sent again, on a way that was not captured."""
    (finding,) = timed(*circling(packets.ack(9), passes=300)).findings
    assert finding.unjudged
    assert "1 packet may be in a loop: PSN 9 passed leaf1:swp1 300 times" in finding.what
    assert "capture both directions" in finding.meaning
    assert not timed(*circling(packets.ack(9), passes=100)).findings


def test_cnps_that_marked_packets_cause_are_none() -> None:
    """A NIC without a minimum time between CNPs sends one for each marked packet; and a file may have only CNPs."""
    marked = [(psn * US, 0, packets.send(psn, ackreq=False, path=packets.MARKED)) for psn in range(9, 400)]
    assert not loops(timed(*sorted([*answered(), *marked, *circling(packets.congestion())])))
    assert not timed(*circling(packets.congestion(), passes=300)).findings


def journey(psn: int, frame: bytes) -> list[tuple[int, int, bytes]]:
    """A marked SEND, an ACK for each eighth, and a CNP for each second one."""
    story = [(psn * 10 * US, 0, frame)] if frame else []
    story += [(psn * 10 * US + 5 * US, 0, packets.ack(psn))] if psn % 8 == 0 else []
    return story + ([(psn * 10 * US + 6 * US, 0, packets.congestion())] if psn % 2 else [])


@pytest.mark.parametrize(
    "sent",
    [
        lambda psn: packets.send(psn, path=packets.MARKED) if psn < 50 else b"",
        lambda psn: packets.send(psn, path=packets.MARKED) if psn % 16 == 3 else b"",
    ],
    ids=["another path from PSN 50 on", "one of 16 links"],
)
def test_cnps_for_packets_that_other_links_have_are_none(sent: Callable[[int], bytes]) -> None:
    """ACKs of later PSNs, or gaps, show that this link does not have all requests."""
    facts = timed(*(event for psn in range(1, 2001) for event in journey(psn, sent(psn))))
    assert not facts.loops


def test_rnr_naks_for_a_request_on_another_path_are_none() -> None:
    """Its PSN is newer than those of all requests in the file."""
    refused = [(number * 500 * US, 0, packets.ack(25, 0x21)) for number in range(300)]
    assert not timed(*answered(), *refused).loops


def test_cnps_to_a_qp_number_that_is_used_again_are_none() -> None:
    """The other end of the new connection has another QP number, and lower PSNs."""
    first = [event for psn in range(5000, 5009) for event in journey(psn, packets.send(psn))]
    then = [
        (MS + at, link, frame)
        for psn in range(20, 420)
        for at, link, frame in journey(psn, packets.send(psn, qp=0x99))
    ]
    assert not timed(*first, *((10**9 + at, link, frame) for at, link, frame in then)).loops


def test_a_read_response_in_a_loop_is_found_behind_the_psn_of_its_read() -> None:
    """The control: the response of a READ has PSNs from that of its request on."""
    reads = [
        (psn * US - MS, 0, frame)
        for psn in (9, 12)
        for frame in (packets.read(psn, 3000), *packets.responses(psn, 3))
    ]
    (loop,) = timed(*answered(), *reads, *circling(packets.responses(12, 3)[2])).loops
    assert (loop.psn, loop.certain) == (14, True)


def test_answers_of_a_round_whose_requests_are_in_the_round_before_are_none() -> None:
    """8,192 packets are one round: the requests fill it, and their answers follow."""
    window = [(psn * 100, 0, packets.send(psn)) for psn in range(8192)]
    again = [(psn * 100, 0, packets.send(psn)) for psn in range(8192, 16384)]
    acks = [(2_000_000 + number * 100, 0, packets.ack(16383)) for number in range(2000)]
    assert not loops(timed(*window, *again, *acks))
