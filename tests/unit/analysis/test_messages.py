"""Messages of which a capture has a part, of other transports, and their rates."""

from __future__ import annotations

import pytest

from lab.wire.opcodes import Opcode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import requests, timed, told


def test_a_message_that_the_capture_cut_is_not_whole() -> None:
    """It begins with the last two of four packets: a WRITE of 4096 bytes is no WRITE of 2048."""
    flow = requests(told([*packets.write(1, 4)[2:], packets.ack(4), *packets.write(5, 2), packets.ack(6)]))
    assert (flow.messages, flow.partial) == ({"WRITE": 1}, 1)
    assert (flow.smallest, flow.largest, flow.payload) == (2048, 2048, 4096)


def uc_writes(count: int) -> list[bytes]:
    """WRITEs of three packets each."""
    first, middle, last = Opcode.UC_RDMA_WRITE_FIRST, Opcode.UC_RDMA_WRITE_MIDDLE, Opcode.UC_RDMA_WRITE_LAST
    reth = bytes(12) + (3072).to_bytes(4)
    return [
        packets.rocev2(packets.THERE, code, 9, psn, reth if code is first else b"", size=1024)
        for psn, code in enumerate((first, middle, last) * count)
    ]


def test_a_uc_message_with_a_hole_is_not_delivered() -> None:
    """IBA vol. 1 section 9.8.3: the responder drops it, and waits for the next first packet."""
    whole = uc_writes(3)
    (flow,) = told([*whole[:4], *whole[5:]]).flows
    assert (flow.messages, flow.partial, flow.largest) == ({"WRITE": 2}, 1, 3072)


@pytest.mark.parametrize("lost", [(5,), (4, 5), (5, 6, 7, 8)])
def test_a_uc_message_without_its_end_is_not_delivered_either(lost: tuple[int, ...]) -> None:
    """Four messages of three packets; the second one begins, and the next that comes is the first of another one."""
    (flow,) = told([frame for psn, frame in enumerate(uc_writes(4)) if psn not in lost]).flows
    assert (flow.messages, flow.partial) == ({"WRITE": 3 - len(lost) // 4}, 1)


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


def test_the_peak_is_never_below_the_mean() -> None:
    """500 bytes in the 2 us after the first packet: 2 Gb/s, though the shortest interval is 100 us."""
    facts = timed(*((at, 0, packets.send(psn, 500)) for psn, at in enumerate((0, 2000))))
    assert facts.over_time.flows[0].peak == pytest.approx(2e9) == requests(facts).goodput
