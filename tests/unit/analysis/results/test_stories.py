"""Hand-made stories of PSNs, each with the numbers that follow from the specification."""

from __future__ import annotations

import io
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.results.fact_builder import analyse
from lab.analysis.transport.psn_tracker import distance
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

NAK_SEQUENCE, RNR, NAK_ACCESS = 0x60, 0x2E, 0x62


def told(*frames: bytes, chunk: int = 2**20) -> AnalysisFacts:
    return analyse(io.BytesIO(pcapng(records(frames))), "story", chunk=chunk)


def sends(*psns: int) -> list[bytes]:
    return [packets.send(psn) for psn in psns]


def requests(facts: AnalysisFacts) -> FlowFacts:
    (flow,) = [flow for flow in facts.flows if flow.qp == packets.QP2]
    return flow


def suspicions(facts: AnalysisFacts) -> str:
    return "\n".join(finding.what for finding in facts.findings)


def test_nothing_wrong() -> None:
    facts = told(*sends(1, 2, 3), packets.ack(3), *packets.write(4, 10), packets.ack(13))
    flow = requests(facts)
    assert not facts.findings
    assert flow.messages == {"SEND": 3, "WRITE": 1}
    assert (flow.smallest, flow.largest, flow.message_bytes) == (100, 10240, 300 + 10240)
    assert flow.payload == 300 + 10240
    assert flow.peer == packets.QP1
    assert flow.round_trip.count == 2
    assert flow.round_trip.least == pytest.approx(1e-6)
    (answering,) = [flow for flow in facts.flows if flow.qp == packets.QP1]
    assert answering.answers == {"ACK": 2}
    assert answering.peer == packets.QP2


def test_sizes_of_messages() -> None:
    """By powers of two, each one included; a READ is as long as what it asks for."""
    facts = told(*(packets.send(psn, size) for psn, size in enumerate((0, 1, 2, 3, 64, 65))), packets.read(6, 2**20))
    flow = requests(facts)
    assert flow.sizes == {0: 1, 1: 1, 2: 1, 4: 1, 64: 1, 128: 1, 2**20: 1}


def test_data_are_placed_and_then_flushed() -> None:
    """Annex A19: one PSN each, however much is flushed, and a READ response without data to answer it."""
    requested = [*packets.write(1, 2), packets.flush(3, 2**20), packets.atomic_write(4), packets.flush(5, 8)]
    facts = told(*requested, packets.ack(2), packets.placed(3), packets.placed(4), packets.placed(5))
    flow = requests(facts)
    assert not facts.findings
    assert flow.messages == {"WRITE": 1, "ATOMIC WRITE": 1, "FLUSH": 2}
    assert (flow.smallest, flow.largest, flow.message_bytes) == (0, 2048, 2048 + 8)
    assert (flow.payload, flow.gaps, flow.peer) == (2048 + 8, 0, packets.QP1)
    assert flow.round_trip.count == 4
    (answering,) = [flow for flow in facts.flows if flow.qp == packets.QP1]
    assert answering.answers == {"ACK": 4}
    assert answering.response_gaps == 0


def test_a_flush_that_is_lost_and_sent_again() -> None:
    """After a NAK the requester goes back to it; what the capture missed before it, its answer shows to be there."""
    lost = told(*sends(1), packets.atomic_write(3), packets.ack(2, NAK_SEQUENCE), packets.flush(2, 64),
                packets.atomic_write(3), packets.placed(2), packets.placed(3))  # fmt: skip
    assert (requests(lost).missing, requests(lost).go_back_n, requests(lost).messages) == (
        1,
        1,
        {"SEND": 1, "ATOMIC WRITE": 1, "FLUSH": 1},
    )
    unseen = told(packets.send(1), packets.flush(3, 64), packets.placed(3), packets.send(4), packets.ack(4))
    assert requests(unseen).unseen == 1


@pytest.mark.parametrize("first", [1, 0xFFFFFD, 0x7FFFFD])
def test_psns_wrap(first: int) -> None:
    flow = requests(told(*sends(*range(first, first + 6)), packets.ack(first + 5)))
    assert (flow.gaps, flow.resent, flow.duplicates) == (0, 0, 0)
    assert flow.payload == 600


@pytest.mark.parametrize("first", [1, 0xFFFFFE])
@pytest.mark.parametrize("chunk", [512, 2**20])
def test_loss_before_this_place(first: int, chunk: int) -> None:
    """1 2 [3] 4 5, NAK 3, 3 4 5 6: the receiver's side of a go-back-N."""
    n = [first + offset for offset in range(6)]
    facts = told(
        *sends(n[0], n[1], n[3], n[4]),
        packets.ack(n[2], NAK_SEQUENCE),
        *sends(*n[2:6]),
        packets.ack(n[5]),
        chunk=chunk,
    )
    flow = requests(facts)
    assert (flow.gaps, flow.missing) == (1, 1)
    assert (flow.resent, flow.go_back_n, flow.out_of_sequence, flow.duplicates) == (3, 1, 2, 0)
    assert flow.payload == 600, "what came out of sequence was dropped, and counts when it comes again"
    (episode,) = facts.go_back_n
    assert (episode.psn, episode.back, episode.packets) == (n[2] & 0xFFFFFF, 3, 3)
    assert episode.cause == "PSN Sequence Error"
    (gap,) = facts.gaps
    assert (gap.psn, gap.count) == (n[2] & 0xFFFFFF, 1)
    assert "1 go-back-N episode, " in suspicions(facts)
    assert "PSN Sequence Error" in suspicions(facts)


def test_loss_after_this_place() -> None:
    """The sender's side: no gap, but everything from the NAK's PSN on is sent twice."""
    facts = told(*sends(1, 2, 3, 4, 5), packets.ack(3, NAK_SEQUENCE), *sends(3, 4, 5, 6), packets.ack(6))
    flow = requests(facts)
    assert (flow.gaps, flow.resent, flow.duplicates, flow.go_back_n) == (0, 3, 3, 1)
    assert flow.payload == 600
    assert facts.go_back_n[0].cause == "PSN Sequence Error"


def test_timeout() -> None:
    """Nobody asked, and the last packet comes again."""
    facts = told(*sends(1, 2), packets.ack(1), *sends(2), packets.ack(2))
    assert facts.go_back_n[0].cause == "timeout"
    assert requests(facts).round_trip.count == 1, "a PSN that was sent twice has no round trip (Karn)"


def test_cause_unknown_when_answers_are_not_captured() -> None:
    assert told(*sends(1, 2, 2)).go_back_n[0].cause == "unknown"


def test_two_episodes() -> None:
    facts = told(*sends(1, 2, 3, 2, 3, 2, 3, 4))
    assert requests(facts).go_back_n == 2
    assert [episode.packets for episode in facts.go_back_n] == [2, 2]


def test_a_nak_to_another_qp_is_no_cause() -> None:
    """Two QPs between the same hosts, at the same PSNs: one gets the NAK, the other one's timer expires."""
    frames = [packets.send(psn, qp=qp) for psn in (1, 2, 3) for qp in (2, 3)]
    frames += [packets.ack(1, qp=102), packets.ack(2, NAK_SEQUENCE, qp=102), packets.ack(1, qp=103)]
    frames += [packets.send(psn, qp=qp) for psn in (2, 3) for qp in (2, 3)]
    facts = told(*introductions(2, 3), *frames, chunk=500)
    assert {flow.qp: flow.peer for flow in facts.flows} == {2: 102, 102: 2, 3: 103, 103: 3}
    assert {step.qp: step.cause for step in facts.go_back_n} == {2: "PSN Sequence Error", 3: "timeout"}


def introductions(*qps: int) -> list[bytes]:
    """A question and its answer for each QP, as much as a batch of 500 bytes holds: who answers whom is certain."""
    return [frame for qp in qps for frame in (packets.send(0, qp=qp, ackreq=False), packets.ack(0, qp=100 + qp))]


def test_rnr() -> None:
    facts = told(*sends(1), packets.ack(1, RNR), *sends(1), packets.ack(1))
    assert facts.go_back_n[0].cause == "RNR NAK"
    assert "RNR NAK" in suspicions(facts)
    assert (requests(facts).go_back_n, requests(facts).rnr_retries, requests(facts).rnr_resent) == (1, 1, 1)
    assert "1 RNR retry, 1 packet retransmitted" in suspicions(facts)
    assert "go-back-N" not in suspicions(facts), "which is said of what was lost"


def test_a_loss_beside_an_rnr_nak_is_told_apart() -> None:
    waited = (*sends(1, 2), packets.ack(1, RNR), *sends(1, 2), packets.ack(2))
    lost = (*sends(3, 4), packets.ack(3, NAK_SEQUENCE), *sends(3, 4), packets.ack(4))
    facts = told(*waited, *lost)
    assert "1 RNR retry, 2 packets retransmitted" in suspicions(facts)
    assert "1 go-back-N episode, 2 packets retransmitted" in suspicions(facts)


def test_access_error() -> None:
    facts = told(*packets.write(1, 3), packets.ack(1, NAK_ACCESS))
    assert any("rkey" in finding.meaning for finding in facts.findings)


def test_reordered() -> None:
    """3 arrives after 4 and nothing is sent twice: late, not a go-back-N."""
    flow = requests(told(*sends(1, 2, 4, 3, 5, 6)))
    assert (flow.late, flow.resent, flow.go_back_n) == (1, 0, 0)


def test_capture_lost_packets() -> None:
    """An ACK beyond the gap proves that the responder has what the capture has not."""
    facts = told(*sends(1, 2, 5, 6), packets.ack(6), *sends(7, 8), packets.ack(8), chunk=512)
    flow = requests(facts)
    assert flow.unseen == 2
    assert "not captured" in suspicions(facts)


@pytest.mark.parametrize("mtu", [256, 1024, 4096])
def test_reads_take_a_psn_for_each_packet_of_the_response(mtu: int) -> None:
    count = -(-10000 // mtu)
    frames = [packets.read(1, 10000), *packets.responses(1, count, mtu), packets.read(1 + count, 10000)]
    facts = told(*frames, *packets.responses(1 + count, count, mtu))
    flow = requests(facts)
    assert flow.messages == {"READ": 2}
    assert flow.largest == 10000
    assert not facts.findings


@pytest.mark.parametrize("mtu", [256, 1024, 4096])
def test_reads_amid_a_go_back_n(mtu: int) -> None:
    """How far a READ reaches is learned from what follows it, in trouble as well as in order."""
    after = 5 + -(-10000 // mtu)
    frames = [*sends(1, 2, 4), packets.read(5, 10000), packets.ack(3, NAK_SEQUENCE)]
    facts = told(*frames, *sends(3, 4), packets.read(5, 10000), *sends(after, after + 1))
    flow = requests(facts)
    assert (flow.gaps, flow.missing, flow.go_back_n, flow.resent) == (1, 1, 1, 3)
    assert flow.messages == {"SEND": 6, "READ": 1}


def test_lost_read_response() -> None:
    frames = packets.responses(1, 5)
    facts = told(packets.read(1, 5000), *frames[:2], *frames[3:])
    assert sum(flow.response_gaps for flow in facts.flows) == 1
    assert "READ responses are missing" in suspicions(facts)


def test_uc_goes_on_after_a_loss() -> None:
    frames = [packets.rocev2(packets.THERE, Opcode.UC_SEND_ONLY, 9, psn, size=64) for psn in (1, 2, 4, 5)]
    (flow,) = told(*frames).flows
    assert (flow.transport, flow.missing, flow.out_of_sequence, flow.payload) == ("UC", 1, 0, 256)


def test_qps_between_the_same_hosts_are_paired_by_psn() -> None:
    frames = [packets.send(1000 * qp + 1, qp=qp) for qp in range(2, 6)]
    frames += [packets.ack(1000 * qp + 1, qp=100 + qp) for qp in range(2, 6)]
    facts = told(*frames)
    assert {flow.qp: flow.peer for flow in facts.flows} == {q: 100 + q for q in range(2, 6)} | {
        100 + q: q for q in range(2, 6)
    }


def test_marks_and_cnps() -> None:
    marked = [packets.send(psn, path=packets.MARKED) for psn in (2, 3)]
    answered = told(packets.send(1), *marked, packets.congestion(), packets.congestion(), packets.ack(3))
    flow = requests(answered)
    assert flow.marked == 2
    assert flow.marked_share == pytest.approx(2 / 3)
    (back,) = [flow for flow in answered.flows if flow.qp == packets.QP1]
    assert back.cnps == 2
    assert back.cnp_spacing.least == pytest.approx(1e-6)
    assert (back.cnp_delay.least, back.cnp_delay.most) == (1e-6, 2e-6)
    assert not answered.findings
    silent = told(packets.send(1), *marked, packets.ack(3))
    assert "no CNP answered" in suspicions(silent)


def test_inner_flows_by_vni() -> None:
    facts = told(
        *(packets.vxlan(packets.send(psn), 10, ecn=3) for psn in range(4)), packets.vxlan(packets.ack(3), 11)
    )
    (tunnel, other) = facts.tunnels
    assert (tunnel.vni, tunnel.src, tunnel.dst, tunnel.packets, tunnel.roce) == (10, "10.0.0.1", "10.0.0.2", 4, 4)
    assert other.vni == 11
    assert [flow.vni for flow in facts.flows] == [10, 11]
    assert facts.flows[0].marked == 4


def on_links(*seen: tuple[int, bytes]) -> AnalysisFacts:
    links = [Interface(f"leaf1:swp{number}", speed=10**9) for number in (1, 2)]
    taken = [Record(10**18 + i, link, len(frame), Direction.OUTBOUND, frame) for i, (link, frame) in enumerate(seen)]
    return analyse(io.BytesIO(pcapng(taken, *links)), "links")


def test_spread_over_parallel_links() -> None:
    even = on_links(*((qp % 2, packets.send(1, qp=qp)) for qp in range(8)))
    assert even.spread[0].jain == 1
    assert even.spread[0].flows == {"leaf1:swp1": 4, "leaf1:swp2": 4}
    uneven = on_links(*((int(qp == 0), packets.send(1, 1000, qp=qp)) for qp in range(12)))
    assert uneven.spread[0].jain == pytest.approx((12 * 12) / (2 * (11 * 11 + 1)))
    assert "uneven spread" in suspicions(uneven)


@pytest.mark.parametrize("captured", [12, 2])
def test_two_ends_of_a_way_without_a_router_are_not_parallel(captured: int) -> None:
    """Two hosts at one switch, captured both, and merged: the TTL is the same, and so are the packets.

    The second host's capture has fewer of them, as if it had begun later.
    """
    seen = [(link, packets.send(psn, qp=qp)) for psn in range(12) for qp in range(8) for link in (0, 1)]
    facts = on_links(*(each for place, each in enumerate(seen) if each[0] == 0 or place // 16 >= 12 - captured))
    assert not facts.spread
    assert "uneven" not in suspicions(facts)


def test_packets_of_one_flow_sprayed_over_links_are_spread() -> None:
    """Adaptive routing: each link has every other packet."""
    facts = on_links(*((psn % 2, packets.send(psn)) for psn in range(40)))
    assert [group.jain for group in facts.spread] == [1]


def test_two_hops_are_not_parallel() -> None:
    near, far = packets.Path(hops=64), packets.Path(hops=63)
    facts = on_links((0, packets.send(1, path=near)), (1, packets.send(1, path=far)))
    assert not facts.spread


def test_marks_along_the_path() -> None:
    """The second link sees half of the packets marked, also in a tunnel; the first one none."""
    near, far = packets.Path(hops=64), packets.Path(hops=62, ecn=3)
    seen = [(0, packets.send(psn, path=near)) for psn in range(4)]
    seen += [(1, packets.vxlan(packets.send(psn, path=near if psn % 2 else far))) for psn in range(4)]
    facts = on_links(*seen)
    (path,) = facts.paths
    assert (path.src, path.dst, path.qp) == ("10.0.0.1", "10.0.0.2", packets.QP2)
    assert [(hop.link, hop.packets, hop.marked_share) for hop in path.hops] == [
        ("leaf1:swp1", 4, 0),
        ("leaf1:swp2", 4, 0.5),
    ]
    assert not on_links(*seen[:4]).paths


def paused(*events: tuple[int, dict[int, int]], speed: int | None = 10**9) -> AnalysisFacts:
    frames = [Record(10**18 + at, 0, 60, Direction.INBOUND, packets.pause(quanta)) for at, quanta in events]
    return analyse(io.BytesIO(pcapng(frames, Interface("leaf1:swp1", speed=speed))), "pauses")


def test_pause_until_xon() -> None:
    facts = paused((0, {3: 0xFFFF}), (100_000, {3: 0xFFFF}), (300_000, {3: 0}), (10**9, {4: 0}))
    port = facts.pauses[0]
    assert (port.cls, port.xoff, port.xon, port.pairs, port.expired) == (3, 2, 1, 1, 0)
    assert port.paused == pytest.approx(300e-6)
    assert port.direction == "in"
    assert not facts.findings


def test_pause_expires() -> None:
    """100 quanta of 512 bit times at 1 Gb/s are 51.2 us."""
    facts = paused((0, {3: 100}), (40_000, {3: 100}), (200_000, {3: 100}), (10**6, {0: 0}))
    port = facts.pauses[1]
    assert (port.expired, port.pairs) == (2, 0)
    assert port.paused == pytest.approx((40e-6 + 51.2e-6) + 51.2e-6)
    assert port.longest == pytest.approx(91.2e-6)
    assert "priority 3 paused" in suspicions(facts)


def test_pause_without_rate_is_timed_by_an_xon_before_the_quanta_can_expire() -> None:
    """65,535 quanta last 41.9 us at 800 Gb/s, and longer on any slower link."""
    unknown = paused((0, {3: 100}), (10**6, {3: 100}), speed=None)
    assert unknown.pauses[0].paused is None
    known = paused((0, {3: 0xFFFF}), (40_000, {3: 0}), speed=None)
    assert known.pauses[0].paused == pytest.approx(40e-6)


def test_pause_without_rate_is_not_timed_by_an_xon_after_the_quanta_may_have_expired() -> None:
    """100 quanta last 64 ns at 800 Gb/s, and 51.2 us at 1 Gb/s. The pause had ended long before this XON."""
    facts = paused((0, {3: 100}), (10**9, {3: 0}), speed=None)
    (port,) = facts.pauses
    assert (port.paused, port.longest, port.share) == (None, None, None)
    assert [port.least, port.most] == pytest.approx([64e-9, 1])
    (finding,) = facts.findings
    assert finding.unjudged
    assert "--rate" in finding.meaning


def test_icrc() -> None:
    bad = bytearray(packets.send(2))
    bad[60] ^= 1
    frames = pcapng(records([packets.send(1), bytes(bad), packets.vxlan(packets.send(3, path=packets.THERE6))]))
    facts = analyse(io.BytesIO(frames), "icrc", check_icrc=True)
    assert facts.icrc is not None
    assert (facts.icrc.right, facts.icrc.wrong) == (2, 1)
    assert "packet 2 has a wrong ICRC" in suspicions(facts)


def test_the_answer_does_not_depend_on_where_batches_end() -> None:
    story = [*packets.write(0xFFFFF0, 40), packets.ack(0x17), *sends(0x18, 0x19, 0x1B, 0x1C)]
    story += [packets.ack(0x1A, NAK_SEQUENCE), *sends(0x1A, 0x1B, 0x1C), packets.ack(0x1C), *packets.write(0x1D, 40)]
    whole = told(*story)
    for chunk in (1200, 4000, 9000):
        assert told(*story, chunk=chunk) == whole


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 0xFFFFFF), st.lists(st.integers(-4, 3), min_size=1, max_size=60))
def test_told_at_once_or_packet_by_packet(first: int, steps: list[int]) -> None:
    """Whatever the PSNs do, the comparison of whole batches and the story of single packets agree.

    The reference is the definition: the responder takes what it expects; the rest is behind or ahead of it.
    """
    psns = list(accumulate(steps, initial=first))
    flow = requests(told(*sends(*psns)))
    small = requests(told(*sends(*psns), chunk=600))
    assert small == flow
    expected, front, taken, missing = psns[0], psns[0], 0, 0
    for psn in psns:
        missing += max(0, psn - front)
        front = max(front, psn + 1)
        taken += psn == expected
        expected += psn == expected
    assert flow.payload == 100 * taken
    assert flow.missing == missing
    assert flow.messages == {"SEND": taken}


def test_distance_is_modular() -> None:
    assert distance(0, 0xFFFFFF) == 1
    assert distance(0xFFFFFF, 0) == -1
    assert [distance(b, a) for a, b in pairwise([5, 9, 2])] == [4, -7]
