"""Which QP answers which: by time, by what they do, by a handshake, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.wire.opcodes import Opcode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import NAK, told


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
    story = [packets.read(0, 512), packets.send(0, qp=0x23), packets.ack(0, qp=0x43), packets.response(0)]
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


def in_step(*pairs: tuple[int, int, int]) -> list[bytes]:
    """QPs of the responder, of the requester, and their source port: all ask thrice, and then all are answered."""
    there = {responder: replace(packets.THERE, entropy=port) for responder, _, port in pairs}
    back = {requester: replace(packets.BACK, entropy=port) for _, requester, port in pairs}
    story = [packets.send(psn, qp=qp, path=path) for psn in range(3) for qp, path in there.items()]
    return story + [packets.ack(2, qp=qp, path=path) for qp, path in back.items()]


def test_qps_in_step_are_told_apart_by_the_source_port_that_linux_gives_both_directions() -> None:
    """As NCCL's: the port is the product of the QPNs, here below 2**14 (include/rdma/ib_verbs.h)."""
    pairs = [(0x20 + place, 0x43 - place, 0xC000 | (0x20 + place) * (0x43 - place)) for place in range(4)]
    facts = told(in_step(*pairs))
    assert {flow.qp: flow.peer for flow in facts.flows if flow.messages} == {there: back for there, back, _ in pairs}


def test_qps_crosswise_have_one_port_and_are_told_apart_by_their_numbers() -> None:
    facts = told(in_step((0x20, 0x21, 0xC000 | 0x20 * 0x21), (0x21, 0x20, 0xC000 | 0x20 * 0x21)))
    assert {flow.qp: flow.peer for flow in facts.flows if flow.messages} == {0x20: 0x21, 0x21: 0x20}


def test_one_port_of_all_tells_nothing() -> None:
    """Also where it is, by chance, the product of two of them."""
    pairs = [(0x20 + place, 0x43 - place, 0xC000 | 0x20 * 0x41) for place in range(5)]
    assert {flow.peer for flow in told(in_step(*pairs)).flows} == {None}


def test_a_port_that_is_not_of_the_qps_tells_nothing() -> None:
    """A flow label that the program asked for, say: 0xC123 is nobody's product."""
    assert {flow.peer for flow in told(in_step((0x20, 0x43, 0xC123), (0x21, 0x42, 0xC123))).flows} == {None}


@pytest.mark.parametrize("opcode", [Opcode.UC_SEND_ONLY, Opcode.UD_SEND_ONLY, Opcode.RC_SEND_ONLY])
def test_a_queue_pair_on_loopback_is_not_its_own_peer(opcode: Opcode) -> None:
    """Both directions have the same addresses; nothing answers."""
    loopback = packets.Path("192.168.0.7", "192.168.0.7")
    extension = bytes(8) if opcode is Opcode.UD_SEND_ONLY else b""
    facts = told([packets.rocev2(loopback, opcode, 0xD3, psn, extension, size=64) for psn in range(5)])
    assert [(flow.qp, flow.peer) for flow in facts.flows] == [(0xD3, None)]
