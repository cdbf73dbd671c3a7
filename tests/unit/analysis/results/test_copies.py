"""Packets that are in a file twice: recognised, said, counted once; and what only looks like it."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from lab.analysis.flows.flow_batches import ROUND
from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import NAK, START, requests, timed, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts


RNR_NAK = 0x2E
US = 1000


def at_times(events: Sequence[tuple[int, bytes]]) -> AnalysisFacts:
    """Frames by their time in ns, at one link."""
    taken = [Record(START + time, 0, len(frame), Direction.UNKNOWN, frame) for time, frame in sorted(events)]
    return analyse(io.BytesIO(pcapng(taken, Interface("mirror", speed=10**11))), "f")


def mirrored(story: Sequence[tuple[int, bytes]], later: int, sides: int = 2) -> list[tuple[int, bytes]]:
    """Each frame as it comes into a switch, and ``later`` ns after that as it leaves it, and so on."""
    return [(time + side * later, frame) for time, frame in story for side in range(sides)]


def conversation(messages: int) -> list[tuple[int, bytes]]:
    """WRITEs of four packets, each with its ACK; a packet of the third one is lost, asked for and sent again.

    Packets are 1 us apart, and the NAK comes 50 us later: not before the packet that it is about has left the switch.
    """
    story, time = [], 0
    for number in range(messages):
        first = 1 + 4 * number
        sent = [*packets.write(first, 4), packets.ack(first + 3)]
        if number == 2:
            sent = [sent[0], *sent[2:4], packets.ack(first + 1, NAK), *sent[1:]]
        for frame in sent:
            time += 50_000 if frame == packets.ack(first + 1, NAK) else 1000
            story.append((time, frame))
    return story


@pytest.mark.parametrize(("later", "sides"), [(1, 2), (900, 2), (3500, 2), (20_000, 2), (1, 4), (3500, 3), (5000, 4)])
@pytest.mark.parametrize("messages", [4, 200, 5000])
def test_a_mirror_of_both_sides_of_a_switch_changes_nothing(later: int, sides: int, messages: int) -> None:
    """One round and several, delays of none to twenty packets, one switch and two, of which one side may lack."""
    story = conversation(messages)
    once, often = at_times(story), at_times(mirrored(story, later, sides))
    copies = (sides - 1) * len(story)
    assert often.copies_alike == copies == sum(flow.copies for flow in often.flows)
    told = [(flow.packets, flow.messages, flow.resent, flow.go_back_n, flow.missing) for flow in once.flows]
    assert [(flow.packets, flow.messages, flow.resent, flow.go_back_n, flow.missing) for flow in often.flows] == told
    (note,) = [finding for finding in often.findings if "duplicate packet" in finding.what]
    assert note.note
    assert f"{copies} duplicate packets with identical headers" in note.what


@pytest.mark.parametrize("sides", [2, 3])
@pytest.mark.parametrize("frames", [1, 2, 3, 5])
def test_so_does_a_mirror_in_a_file_of_a_few_packets(frames: int, sides: int) -> None:
    """Whatever the file has: one packet, a packet and its ACK, two of a WRITE."""
    story = [packets.send(1), packets.ack(1), *packets.write(2, 2), packets.ack(3)][:frames]
    facts = at_times(mirrored([(at * 20_000, frame) for at, frame in enumerate(story)], 1000, sides))
    assert sum(flow.packets for flow in facts.flows) == frames
    assert facts.copies_alike == (sides - 1) * frames
    (note,) = facts.findings
    assert note.note


@pytest.mark.parametrize(
    "story",
    [
        [packets.send(1), packets.ack(1, RNR_NAK)] * 2,
        [packets.send(1), packets.send(2), packets.ack(1, NAK), packets.send(1), packets.send(2), packets.ack(2)],
        [packets.send(1), packets.send(2)] * 2,  # without an answer in the file: a NAK may have passed elsewhere
    ],
)
def test_a_few_packets_that_a_nak_repeats_are_no_copies(story: list[bytes]) -> None:
    assert at_times([(at * 20_000, frame) for at, frame in enumerate(story)]).copies_alike == 0


def test_what_a_responder_refuses_again_and_again_is_no_copy() -> None:
    """It is not ready, five times in a row, and the requester is back after 10 us each time."""
    refused = [packets.send(1), packets.ack(1, RNR_NAK)] * 6
    facts = at_times([(at * 5000, frame) for at, frame in enumerate(refused)])
    assert (facts.copies_alike, sum(flow.packets for flow in facts.flows)) == (0, 12)


@pytest.mark.parametrize("qps", [1, 10])
@pytest.mark.parametrize("retries", [59, 60])
def test_requests_that_are_refused_often_within_a_ms_are_no_copies(qps: int, retries: int) -> None:
    """RNR timers from 10 us on. 60 refused requests are as many as four copies of each of 15."""
    story = [(0, packets.send(8)), (US, packets.ack(8))]
    story += [
        (10 * US + turn * 100 * US + qp * 2 * US + late, frame)
        for turn in range(retries + 1)
        for qp in range(qps)
        for late, frame in (
            (0, packets.send(9, qp=0x100 + qp)),
            (US, packets.ack(9, RNR_NAK, qp=0x200 + qp)),
        )
    ]
    facts = at_times(story)
    assert sum(flow.copies for flow in facts.flows) == 0
    assert sum(flow.answers.get("RNR NAK", 0) for flow in facts.flows) == qps * (retries + 1)


def test_what_is_sent_again_is_no_copy() -> None:
    """Every window of four is lost behind this place, asked for, and sent again, to the last: only NAKs come once."""
    events: list[bytes] = []
    for first in range(1, 401, 4):
        window = [packets.send(psn) for psn in range(first, first + 4)]
        events += [*window, packets.ack(first, NAK), *window, packets.ack(first + 3)]
    facts = at_times([(at * 1000, frame) for at, frame in enumerate(events)])
    assert facts.copies_alike == 0
    (flow,) = [flow for flow in facts.flows if flow.messages]
    assert (flow.packets, flow.resent, flow.go_back_n) == (800, 400, 100)


def test_what_a_timer_sends_again_is_no_copy() -> None:
    """Nobody answers, and after 4 ms each packet comes once more."""
    frames = [packets.send(psn) for psn in range(1, 40)]
    again = [(at * 100 + 4_000_000, frame) for at, frame in enumerate(frames)]
    facts = at_times([*((at * 100, frame) for at, frame in enumerate(frames)), *again])
    assert (facts.copies_alike, facts.flows[0].packets) == (0, 78)


def test_transmissions_that_their_sender_counts_are_no_copies() -> None:
    """rxe gives each one an Identification of its own (RFC 791 section 3.1)."""
    frames = []
    for number in range(40):
        frame = packets.send(1 + number // 2)
        frames.append(frame[:18] + number.to_bytes(2) + frame[20:])
    facts = at_times([(at * 1000, frame) for at, frame in enumerate(frames)])
    assert (facts.copies_alike, facts.flows[0].packets) == (0, 40)


def test_packets_mirrored_on_both_sides_of_a_router_count_once() -> None:
    """Each one comes twice, the second with a TTL that is one less; one is lost and sent again, which is no copy."""
    near, far = packets.Path(hops=64), packets.Path(hops=63)
    psns = [*range(1, 50), 51, 50, 51, *range(52, 100)]
    story = [(at * 1000, packets.send(psn, path=path)) for at, psn in enumerate(psns) for path in (near, far)]
    story.append((51_500, packets.ack(50, NAK)))
    twice = timed(*((time + place % 2, 0, frame) for place, (time, frame) in enumerate(sorted(story))))
    flow = requests(twice)
    assert (flow.packets, flow.copies) == (len(psns), len(psns))
    assert (flow.missing, flow.go_back_n, flow.resent, flow.messages) == (1, 1, 2, {"SEND": 99})
    assert any(finding.note and f"{len(psns)} duplicate packets" in finding.what for finding in twice.findings)


@pytest.mark.parametrize("later", [2000, 50_000])
@pytest.mark.parametrize("hops", [(64, 63, 62), (62, 63, 64), (255, 254, 253, 252)])
def test_packets_mirrored_at_several_hops_count_once(hops: Sequence[int], later: int) -> None:
    """A packet broker that gets the mirrors of two routers: 100 ns between packets, and up to 50 us from hop to hop.

    Packet 1500 is lost before the first hop, asked for, and sent again with all behind it.
    """
    psns = [*range(1500), *range(1501, 1550), *range(1500, 3000)]
    wide = [packets.Path(hops=ttl) for ttl in hops]
    story = [(at * 100 + place * later, packets.send(psn, path=path))
             for at, psn in enumerate(psns) for place, path in enumerate(wide)]  # fmt: skip
    back = [(154_900 + place * later, packets.ack(1500, NAK, path=replace(packets.BACK, hops=path.hops)))
            for place, path in enumerate(wide)]  # fmt: skip
    facts = at_times([*story, *back])
    flow = requests(facts)
    assert (flow.packets, flow.copies) == (len(psns), len(psns) * (len(hops) - 1))
    assert (flow.missing, flow.go_back_n, flow.resent, flow.messages) == (1, 1, 50, {"SEND": 3000})
    (step,) = facts.go_back_n
    assert step.cause == "PSN Sequence Error"
    (answers,) = [flow.answers for flow in facts.flows if flow.answers]
    assert answers == {"PSN Sequence Error": 1}


@pytest.mark.parametrize("hops", [(64, 63), (64, 63, 62), (63, 62, 61, 60)])
def test_cnps_are_counted_once_however_many_they_are(monkeypatch: pytest.MonkeyPatch, hops: Sequence[int]) -> None:
    """One every 5 us, all alike, and each again 1 us later: what is remembered of them stays short."""
    remembered: set[int] = set()

    def further(ttls: bytes, ttl: int) -> bool:
        remembered.add(len(ttls))
        return ttls.count(ttl) < max(map(ttls.count, set(ttls)), default=0)

    monkeypatch.setattr("lab.analysis.transport.mirror_duplicates._further", further)
    events = [
        (at * 5000 + side * 1000, packets.congestion(replace(packets.BACK, hops=ttl)))
        for at in range(999)
        for side, ttl in enumerate(hops)
    ]
    facts = at_times(events)
    assert (facts.flows[0].cnps, facts.flows[0].copies) == (999, 999 * (len(hops) - 1))
    assert max(remembered) < 24


@pytest.mark.parametrize("packets_left", [1, 2, 3])
def test_a_capture_may_end_with_nothing_but_copies(packets_left: int) -> None:
    """The last round has only those whose first sides were in the round before."""
    count = (ROUND + packets_left + 1) // 2
    near, far = packets.Path(hops=64), packets.Path(hops=63)
    story = [(psn * 1000, packets.send(psn, 0, path=near)) for psn in range(count)]
    story += [(psn * 1000 + 3500, packets.send(psn, 0, path=far)) for psn in range(ROUND + packets_left - count)]
    facts = at_times(story)
    assert (facts.flows[0].packets, facts.flows[0].copies) == (count, ROUND + packets_left - count)


@pytest.mark.parametrize("hops", [63, 64])
def test_a_tag_that_one_side_of_the_mirror_has_makes_no_other_packet(hops: int) -> None:
    """A trunk on one side and an access or routed port on the other, 1 us later: four octets less."""
    far = packets.Path(hops=hops)
    story = [(psn * 10_000, packets.tagged(packets.send(psn))) for psn in range(1, 40)]
    facts = at_times([*story, *((psn * 10_000 + 1000, packets.send(psn, path=far)) for psn in range(1, 40))])
    (flow,) = facts.flows
    assert (flow.packets, flow.copies, flow.go_back_n) == (39, 39, 0)


def test_a_path_of_another_length_makes_no_copies() -> None:
    """What a longer path brings again is a retransmission."""
    far = packets.Path(hops=62)
    story = [packets.send(psn) for psn in range(1, 40)] + [packets.send(psn, path=far) for psn in (39, 40, 41)]
    flow = requests(told([*story, packets.ack(41)]))
    assert (flow.copies, flow.resent, flow.packets) == (0, 1, 42)


def test_cnps_are_all_alike_and_no_copies() -> None:
    """A NIC sends one every 50 us to the same QP, and this link has nothing else (IBA vol. 1 annex A17.9.3)."""
    facts = at_times([(at * 50_000, packets.congestion()) for at in range(60)])
    assert (facts.copies_alike, facts.flows[0].cnps) == (0, 60)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), None])
@pytest.mark.parametrize("answered", [False, True])
def test_cnps_over_paths_of_several_lengths_are_no_copies(order: tuple[int, ...] | None, answered: bool) -> None:
    """They have no PSN, so different ones are alike but for the TTL."""
    draw = Random(3)
    lengths = [order[at % 3] if order else draw.randrange(3) for at in range(300)]
    story = [
        (at * 50_000, 0, packets.congestion(replace(packets.BACK, hops=60 + length)))
        for at, length in enumerate(lengths)
    ]
    if answered:
        story += [(at * 40_000 + 7, 0, frame) for at in range(300) for frame in (packets.send(at), packets.ack(at))]
    facts = timed(*sorted(story))
    assert sum(flow.cnps for flow in facts.flows) == 300
    assert not [found for found in facts.findings if "duplicate" in found.what]
