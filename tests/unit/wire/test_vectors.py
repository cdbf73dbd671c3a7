"""What real queue pairs of rxe sent, every opcode and every answer: decoded, rebuilt, and read by tshark.

How the files came about is in vectors/README.md; a CNP, which rxe never sends, is in test_icrc.py, from a ConnectX.
"""

from __future__ import annotations

from pathlib import Path as File
from typing import Final

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from lab.analysis.read.records import Reader
from lab.wire import icrc
from lab.wire.craft.build import Path, RoceMessage, rocev2
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.headers import Feth, Placement, Selectivity
from lab.wire.opcodes import Opcode
from lab.wire.rocev2 import BTH
from lab.wire.syndrome import NO_CREDIT_COUNT, AckKind, NakCode, Syndrome
from lab.wire.udp_ports import source_port
from tests.unit.wire.opinions import FIELDS, ask_tshark, ours, theirs
from tests.unit.wire.packets import HEADERS
from tests.unit.wire.rxe_flush import mended

FILES: Final = sorted(File(__file__).with_name("vectors").glob("*.pcapng"))
ANSWERS: Final = {
    Syndrome(AckKind.ACK, NO_CREDIT_COUNT),
    Syndrome(AckKind.RNR_NAK, 12),
    *(Syndrome(AckKind.NAK, code) for code in NakCode if code is not NakCode.INVALID_RD_REQUEST),
}

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def packets(file: File) -> list[bytes]:
    with file.open("rb") as stream:
        return [bytes(record.data) for record in Reader(stream, file.name)]


def right_packets(file: File) -> list[bytes]:
    """The packets, each with a right ICRC: that of a FLUSH is not (see rxe_flush.py)."""
    return [mended(data) for data in packets(file)]


def message_of(frame: DecodedFrame, data: bytes) -> RoceMessage:
    """The message that was read, as the builder wants it."""
    bth, size = frame.bth, frame.payload
    assert bth is not None
    assert size is not None
    end = len(data) - icrc.SIZE - bth.pad
    return RoceMessage(
        Opcode(bth.opcode),
        bth.destqp,
        bth.psn,
        ackreq=bth.ackreq,
        solicited=bth.solicited,
        migreq=bth.migreq,
        fecn=bth.fecn,
        becn=bth.becn,
        pkey=bth.pkey,
        payload=data[end - size : end],
        **{name: getattr(frame, name) for name in HEADERS},
    )


def rebuilt(data: bytes) -> bytes:
    """``data`` with everything above UDP built anew from what was read, under the IP and UDP headers that it had."""
    frame = decode(data)
    path = Path("02:00:00:00:00:01", "02:00:00:00:00:02", frame.src, frame.dst)
    transport = 34 if ":" not in frame.src else 54
    above = rocev2(path, message_of(frame, data))[transport + 8 : -icrc.SIZE]
    packet = data[: transport + 8] + above
    return packet + icrc.compute(packet[14:], transport - 14)


@every_file
def test_every_opcode_and_every_answer_is_there(file: File) -> None:
    frames = [decode(data) for data in right_packets(file)]
    assert {frame.bth.opcode for frame in frames if frame.bth} == {*Opcode} - {Opcode.CNP}
    assert {frame.aeth.syndrome for frame in frames if frame.aeth} == ANSWERS
    assert {(frame.icrc, frame.fault) for frame in frames} == {(Icrc.OK, "")}


@every_file
def test_only_the_icrc_of_a_flush_was_wrong(file: File) -> None:
    frames = [decode(data) for data in packets(file)]
    assert {frame.bth.opcode for frame in frames if frame.bth and frame.icrc is not Icrc.OK} == {Opcode.RC_FLUSH}


@every_file
def test_placement_is_asked_for_and_answered(file: File) -> None:
    """Annex A19: each in one packet, and each answered by a READ response without data, with its PSN."""
    frames = [decode(data) for data in packets(file)]
    opcodes = [frame.bth.opcode for frame in frames if frame.bth]
    for opcode, carried in ((Opcode.RC_FLUSH, 0), (Opcode.RC_ATOMIC_WRITE, 8)):
        asked, answer = frames[opcodes.index(opcode) :][:2]
        assert asked.bth is not None
        assert answer.bth is not None
        assert asked.reth is not None
        assert (asked.payload, asked.reth.dmalen) == (carried, 8)
        assert (answer.bth.opcode, answer.payload) == (Opcode.RC_RDMA_READ_RESPONSE_ONLY, 0)
        assert answer.bth.psn == asked.bth.psn
    flushed = [frame.feth for frame in frames if frame.feth]
    assert flushed == [Feth(sel, Placement.GLOBAL_VISIBILITY) for sel in (Selectivity.RANGE, Selectivity.REGION)]


def test_both_address_families_are_there() -> None:
    assert [":" in decode(packets(file)[0]).src for file in FILES] == [False, True]


@every_file
def test_what_was_read_builds_the_same_octets(file: File) -> None:
    for data in right_packets(file):
        assert rebuilt(data) == data


@every_file
def test_scapy_seals_the_same_octets(file: File) -> None:
    for data in right_packets(file):
        packet = Ether(data)
        packet[BTH].ICRC = None
        assert bytes(packet) == data


@every_file
def test_tshark_reads_the_same_in_every_field(file: File) -> None:
    rows = ask_tshark(file, *FIELDS)
    assert [theirs(row) for row in rows] == [ours(decode(data), data) for data in packets(file)]


@every_file
def test_one_wrong_bit_is_noticed(file: File) -> None:
    for data in right_packets(file):
        damaged = bytearray(data)
        damaged[-icrc.SIZE - 1] ^= 0x10  # of the data, or of the last header
        assert decode(bytes(damaged)).icrc is Icrc.BAD
        assert rebuilt(bytes(damaged)) != damaged


@every_file
def test_the_source_port_of_connections_is_of_both_qps(file: File) -> None:
    """In these files both ends of a connection have the same number."""
    found = set()
    for data in packets(file):
        packet = Ether(data)
        if packet[BTH].OpCode < Opcode.UD_SEND_ONLY:
            found.add((packet[BTH].DestQP, packet[UDP].sport))
    assert len(found) > 1
    assert found == {(qp, source_port(qp, qp)) for qp, _ in found}
