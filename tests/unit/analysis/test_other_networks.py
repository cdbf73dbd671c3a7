"""What NICs and mirrors other than this project's do, each story with the numbers that follow by arithmetic."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.analyser import Analyser
from lab.analysis.report import analyse
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.facts import Facts, Flow

NAK = 0x60
MS = 1_000_000
START = 10**18


def told(frames: Sequence[bytes], chunk: int = 2**20) -> Facts:
    return analyse(io.BytesIO(pcapng(records(frames))), "story", chunk=chunk)


def timed(*events: tuple[int, int, bytes], links: int = 2) -> Facts:
    """Frames by their time in ns and their link."""
    taken = [Record(START + time, link, len(frame), Direction.INBOUND, frame) for time, link, frame in events]
    interfaces = [Interface(f"leaf1:swp{number}", speed=10**11) for number in range(1, links + 1)]
    return analyse(io.BytesIO(pcapng(taken, *interfaces)), "story")


def requests(facts: Facts, qp: int = packets.QP2) -> Flow:
    (flow,) = [flow for flow in facts.flows if flow.qp == qp and flow.messages]
    return flow


def swapped() -> list[bytes]:
    """1000 SENDs, two of them swapped, every 16th one acknowledged."""
    frames = []
    for psn in [*range(1, 100), 101, 100, *range(102, 1001)]:
        frames.append(packets.send(psn, ackreq=psn % 16 == 0))
        if psn % 16 == 0:
            frames.append(packets.ack(psn))
    return frames


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


# READ


def only(psn: int, size: int = 512) -> bytes:
    return packets.rocev2(packets.BACK, Opcode.RC_RDMA_READ_RESPONSE_ONLY, packets.QP1, psn, b"\x1f\0\0\1", size=size)


def test_the_path_mtu_is_what_full_packets_show() -> None:
    """10000 bytes at 1024 are ten PSNs: a READ three further on is one that comes again, not the next one."""
    first = [packets.read(1, 10000), *packets.responses(1, 10)]
    facts = told([*first, packets.read(11, 10000), packets.read(14, 10000 - 3 * 1024)])
    assert (requests(facts).resent, requests(facts).gaps) == (1, 0)


def test_a_read_again_after_a_gap_in_responses_is_an_implied_nak() -> None:
    answers = packets.responses(1, 5)
    story = [packets.read(1, 5120), *answers[:2], *answers[3:], packets.read(3, 3072), *packets.responses(3, 3)]
    facts = told(story)
    assert [(step.psn, step.cause) for step in facts.go_back_n] == [(3, "implied NAK")]
    (answering,) = [flow for flow in facts.flows if flow.qp == packets.QP1]
    assert answering.response_gaps == 1
    assert answering.payload == 5 * 1024, "what came again counts once"


@pytest.mark.parametrize("lost", [0, 4])
def test_a_lost_first_or_last_response_is_reported(lost: int) -> None:
    """The next READ is answered, and something of this one is missing."""
    answers = packets.responses(6, 5)
    del answers[lost]
    story = [packets.read(1, 5120), *packets.responses(1, 5), packets.read(6, 5120), packets.read(11, 5120)]
    facts = told([*story, *answers, *packets.responses(11, 5)])
    assert sum(flow.response_gaps for flow in facts.flows) == 1


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_only_response_is_reported(lost: int) -> None:
    """Four READs of one packet each, one of which gets no answer."""
    story = [packets.read(psn, 512) for psn in range(1, 5)]
    facts = told([*story, *(only(psn) for psn in range(1, 5) if psn != lost)])
    assert sum(flow.response_gaps for flow in facts.flows) == 1
    whole = told([*story, *(only(psn) for psn in range(1, 5))])
    assert not any(flow.response_gaps for flow in whole.flows)


def test_reads_have_a_goodput() -> None:
    """Four of 512 bytes in 4 us after the first request."""
    story = [(0, 0, packets.read(1, 512)), *((1000 * psn, 0, only(psn)) for psn in (1, 2, 3))]
    facts = timed(*story, (3500, 0, packets.read(4, 512)), (4000, 0, only(4)))
    assert requests(facts).read_goodput == pytest.approx(4 * 512 * 8 / 3.5e-6)


# pairs


def test_qps_in_step_are_told_apart_by_time() -> None:
    """Four QPs start at PSN 0, as NCCL's do; each is answered before the next one asks."""
    story: list[bytes] = []
    for psn in range(3):
        for qp in range(4):
            story += [packets.send(psn, qp=0x20 + qp), packets.ack(psn, qp=0x40 + qp)]
    facts = told(story)
    assert {flow.qp: flow.peer for flow in facts.flows if flow.messages} == {0x20 + qp: 0x40 + qp for qp in range(4)}


def test_where_nothing_tells_qps_apart_the_peer_is_unknown() -> None:
    """Two QPs in step, and one NAK: which of them it stopped cannot be known."""
    story = [packets.send(psn, qp=0x20 + qp) for psn in range(3) for qp in range(2)]
    story += [packets.ack(0, qp=0x40), packets.ack(0, qp=0x41), packets.ack(1, NAK, qp=0x40)]
    story += [packets.send(psn, qp=0x20 + qp) for psn in (1, 2) for qp in range(2)]
    facts = told(story)
    assert {flow.peer for flow in facts.flows} == {None}
    assert {step.cause for step in facts.go_back_n} == {"unknown"}


def test_qps_in_step_are_told_apart_by_what_they_do() -> None:
    """One WRITEs three packets where the other one SENDs thrice: MSN says how many messages were finished."""
    writes = packets.write(0, 3, qp=0x20)
    sends = [packets.send(psn, qp=0x21) for psn in range(3)]
    story = [frame for pair in zip(writes, sends, strict=True) for frame in pair]
    story += [packets.send(3, qp=0x20), packets.send(3, qp=0x21)]

    def answered(qp: int, *msns: int) -> list[bytes]:
        return [
            packets.rocev2(packets.BACK, Opcode.RC_ACKNOWLEDGE, qp, psn, bytes([31]) + msn.to_bytes(3))
            for psn, msn in zip((0, 3), msns, strict=True)
        ]

    facts = told([*story, *answered(0x41, 1, 4), *answered(0x40, 0, 2)])
    assert {flow.qp: flow.peer for flow in facts.flows if flow.messages} == {0x20: 0x40, 0x21: 0x41}


def test_a_read_and_a_send_in_step_are_told_apart_by_their_answers() -> None:
    story = [packets.read(0, 512), packets.send(0, qp=0x23), packets.ack(0, qp=0x43), only(0)]
    facts = told(story)
    assert {flow.qp: flow.peer for flow in facts.flows if flow.messages} == {packets.QP2: packets.QP1, 0x23: 0x43}


def test_cnps_go_to_the_sender_that_they_are_for() -> None:
    """Three senders use the same QPN to one receiver; only the second one gets CNPs."""
    story = []
    for host in range(3):
        there = packets.Path(f"10.0.1.{host}", "10.0.0.9", ecn=3)
        back = packets.Path("10.0.0.9", f"10.0.1.{host}")
        story += [packets.send(5, path=there), packets.ack(5, path=back)]
        if host == 1:
            story += [packets.congestion(back)] * 7
    facts = told(story)
    assert {flow.dst: flow.cnps for flow in facts.flows if flow.src == "10.0.0.9"} == {
        "10.0.1.0": 0, "10.0.1.1": 7, "10.0.1.2": 0
    }  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.integers(300, 2**17), st.integers(0, 2**32))
def test_no_buffer_changes_the_report(chunk: int, seed: int) -> None:
    """Everything at once: losses, swaps, NAKs, READs and two QPs, with answers lost, too."""
    rng = random.Random(seed)
    story = [frame for frame in [*swapped()[:400], *packets.write(1001, 30)] if rng.random() > 0.01]
    story += [packets.read(1031, 5120), *packets.responses(1031, 5), packets.ack(1036, NAK), packets.send(1036)]
    assert told(story, chunk) == told(story)


# flow control


def pause_frame(sender: int, quanta: int) -> bytes:
    frame = packets.pause({3: quanta})
    return frame[:11] + bytes([sender]) + frame[12:]


def test_pauses_of_both_ends_are_told_apart_by_their_senders() -> None:
    """A TAP: one end pauses for 90 ms of 100, which the other end's XON every 10 ms does not end."""
    frames = [(0, pause_frame(1, 0xFFFF)), (90 * MS, pause_frame(1, 0))]
    frames += [(at * 10 * MS + 20_000, pause_frame(2, 0)) for at in range(10)] + [(100 * MS, pause_frame(2, 0))]
    taken = [Record(START + at, 0, 60, Direction.UNKNOWN, frame) for at, frame in sorted(frames)]
    facts = analyse(io.BytesIO(pcapng(taken, Interface("tap"))), "story")
    paused = {port.sender: port.paused for port in facts.pauses}
    assert paused["02:00:00:00:00:01"] == pytest.approx(90e-3)
    assert not paused["02:00:00:00:00:02"]
    assert "tap, from 02:00:00:00:00:01: priority 3 paused for 90 ms" in facts.findings[0].what


def test_the_files_rate_comes_before_the_one_given() -> None:
    """100 quanta are 51,200 bits: 51.2 us at the 1 Gb/s that the file names, whatever was given."""
    taken = [Record(START + at, 0, 60, Direction.INBOUND, pause_frame(1, q)) for at, q in ((0, 100), (10 * MS, 0))]
    known, unknown = (
        analyse(io.BytesIO(pcapng(taken, Interface("x", speed=speed))), "story", rate=10**8).pauses[0].paused
        for speed in (10**9, None)
    )
    assert known == pytest.approx(51.2e-6)
    assert unknown == pytest.approx(512e-6)


def captured(select: str) -> Facts:
    output = io.BytesIO()
    writer = Writer(output, select=select)
    writer.add_interface(Interface("h1:eth1"))
    writer.write(records([packets.send(1), packets.ack(1)]))
    return analyse(io.BytesIO(output.getvalue()), "story")


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("", ""),
        ("roce or pfc", ""),
        ("roce", "not captured, the capture's filter was 'roce'"),
        ("host h1", "not captured, the capture's filter was 'host h1'"),
        ("udp port 4791", "perhaps not captured, the capture's filter was 'udp port 4791'"),
    ],
)
def test_pauses_that_a_filter_left_out_are_not_none(select: str, said: str) -> None:
    assert captured(select).pause_frames_hidden == said


# messages


def test_a_message_that_the_capture_cut_is_not_whole() -> None:
    """It begins with the last two of four packets: a WRITE of 4096 bytes is no WRITE of 2048."""
    flow = requests(told([*packets.write(1, 4)[2:], packets.ack(4), *packets.write(5, 2), packets.ack(6)]))
    assert (flow.messages, flow.partial) == ({"WRITE": 1}, 1)
    assert (flow.smallest, flow.largest, flow.payload) == (2048, 2048, 4096)


def test_a_uc_message_with_a_hole_is_not_delivered() -> None:
    """IBA vol. 1 section 9.8.3: the responder drops it, and waits for the next first packet."""
    first, middle, last = Opcode.UC_RDMA_WRITE_FIRST, Opcode.UC_RDMA_WRITE_MIDDLE, Opcode.UC_RDMA_WRITE_LAST
    reth = bytes(12) + (3072).to_bytes(4)
    whole = [
        packets.rocev2(packets.THERE, code, 9, psn, reth if code is first else b"", size=1024)
        for psn, code in enumerate((first, middle, last, first, middle, last, first, middle, last))
    ]
    (flow,) = told([*whole[:4], *whole[5:]]).flows
    assert (flow.messages, flow.partial, flow.largest) == ({"WRITE": 2}, 1, 3072)


def test_datagrams_that_come_marked_need_no_cnp() -> None:
    deth = bytes(4) + packets.QP1.to_bytes(4)
    marked = [packets.rocev2(packets.MARKED, Opcode.UD_SEND_ONLY, 9, psn, deth, size=64) for psn in range(3)]
    facts = told([*marked, packets.rocev2(packets.BACK, Opcode.UD_SEND_ONLY, 8, 1, deth, size=64)])
    assert not facts.findings


def test_the_peak_is_never_below_the_mean() -> None:
    """1000 bytes in 2 us: 4 Gb/s, though the shortest interval is 100 us."""
    facts = timed(*((at, 0, packets.send(psn, 500)) for psn, at in enumerate((0, 2000))))
    assert facts.over_time.flows[0].peak == pytest.approx(4e9) == requests(facts).goodput


# what looks wrong


def marked_without_cnps(application: str) -> Facts:
    """Two links see the same marked packets, and no CNP goes back."""
    output = io.BytesIO()
    writer = Writer(output, application)
    for link in ("h1:eth1", "leaf1:swp1"):
        writer.add_interface(Interface(link))
    frames = [packets.send(1, path=packets.MARKED), packets.ack(1)]
    writer.write(Record(START + at, at % 2, len(f), Direction.INBOUND, f) for at, f in enumerate(sorted(frames * 2)))
    return analyse(io.BytesIO(output.getvalue()), "story")


def test_what_the_emulation_explains_is_a_note_and_said_once() -> None:
    (here,), (elsewhere,) = marked_without_cnps("rocelab").findings, marked_without_cnps("dumpcap").findings
    assert here.note
    assert not elsewhere.note
    assert "at h1:eth1 and 1 more link: 1 packet marked CE, no CNP answered" in here.what == elsewhere.what


def test_one_cause_of_many_flows_is_one_finding() -> None:
    story = [packets.send(psn, qp=qp) for psn in (1, 2, 3, 2, 3, 4) for qp in range(100, 400)]
    (finding,) = told(story).findings
    assert finding.what.startswith(
        "300 flows, the first 10.0.0.1 to 10.0.0.2 QP 0x64 at leaf1:swp1: 300 go-back-N episodes"
    )


def test_a_file_in_pieces_is_the_same_file() -> None:
    """Two sections that describe the same link, put together, as cat or a ring leaves them."""
    taken = records(swapped())
    whole = analyse(io.BytesIO(pcapng(taken)), "story")
    parts = analyse(io.BytesIO(pcapng(taken[:300]) + pcapng(taken[300:])), "story")
    assert parts == whole


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
    assert any(
        finding.note and f"{len(psns)} packets in the file twice" in finding.what for finding in twice.findings
    )


def test_a_path_of_another_length_makes_no_copies() -> None:
    """What a longer path brings again is a retransmission."""
    far = packets.Path(hops=62)
    story = [packets.send(psn) for psn in range(1, 40)] + [packets.send(psn, path=far) for psn in (39, 40, 41)]
    flow = requests(told([*story, packets.ack(41)]))
    assert (flow.copies, flow.resent, flow.packets) == (0, 1, 42)


def test_an_xrc_header_is_no_payload() -> None:
    """Annex A14: four bytes that name the receive queue, before the RETH of a WRITE; none in the ACK."""
    reth = bytes(12) + (100).to_bytes(4)
    asking = packets.THERE.wrap(
        b"\xaa\x40\xff\xff" + (9).to_bytes(4) + b"\x80\0\0\x01" + bytes(4) + reth + bytes(100)
    )
    answer = packets.BACK.wrap(b"\xb1\x40\xff\xff" + (8).to_bytes(4) + b"\0\0\0\x01" + b"\x1f\0\0\x01")
    facts = told([asking, answer])
    flow = requests(facts, 9)
    assert (flow.transport, flow.payload, flow.messages, flow.peer) == ("XRC", 100, {"WRITE": 1}, 8)
    assert flow.round_trip.count == 1


def test_a_truncating_mirror_is_a_note_and_its_packets_are_analysed() -> None:
    facts = told([frame[:80] for frame in (*packets.write(1, 4), packets.ack(4))])
    flow = requests(facts)
    assert (flow.messages, flow.payload, facts.short) == ({"WRITE": 1}, 4096, 4)
    (finding,) = facts.findings
    assert finding.note
    assert "4 packets shorter than the IP header says" in finding.what


def test_a_handshake_tells_who_answers_whom() -> None:
    """Two QPs in step whose packets tell nothing; REQ and REP name both ends of each."""
    greetings = []
    for qp in range(2):
        greetings += [packets.request_connection(qp, 0x40 + qp, 0), packets.accept_connection(9, qp, 0x21 - qp, 0)]
    story = [packets.send(psn, qp=0x20 + qp) for psn in range(3) for qp in range(2)]
    story += [packets.ack(2, qp=0x40), packets.ack(2, qp=0x41)]
    facts = told([*greetings, *story])
    assert {flow.qp: flow.peer for flow in facts.flows if flow.qp in {0x20, 0x21}} == {0x20: 0x41, 0x21: 0x40}
    assert {flow.peer for flow in told(story).flows} == {None}


def test_what_waits_for_an_ack_is_bounded_over_all_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 flows with a gap each, and behind it 20 packets that no ACK comes for: no more than 100 are kept."""
    monkeypatch.setattr("lab.analysis.order.MAX_WAITING", 100)
    story = [packets.send(psn, 4, qp=qp) for psn in (1, *range(3, 23)) for qp in range(100, 150)]
    analyser = Analyser()
    analyser.run(io.BytesIO(pcapng(records(story))), "story")
    assert len(analyser.order.sequences) == 50
    assert sum(sequence.waiting for sequence in analyser.order.sequences.values()) <= 100
