"""The ICRC that rxe gives a FLUSH, and wants of one: up to Linux 7.3 at least, it covers the transport headers twice.

rxe_opcode.c does not say where the payload of a FLUSH would begin, so rxe takes everything from the BTH on for it.
What it seals and checks is right up to the end of the headers, and then has the headers once more, nothing masked.
"""

from __future__ import annotations

from lab.wire import icrc
from lab.wire.frame import decode
from lab.wire.layers import ETHERNET_SIZE as ETHERNET
from lab.wire.opcodes import Opcode

_UDP_SIZE = 8


def _transport(data: bytes) -> int:
    """Where the UDP header starts in an untagged frame."""
    return ETHERNET + (40 if data[ETHERNET] >> 4 == 6 else 20)


def _seal(data: bytes) -> bytes:
    """rxe's ICRC of the frame."""
    transport = _transport(data)
    packet = data[ETHERNET : -icrc.SIZE]
    crc, covered = icrc.begin(packet, transport - ETHERNET)
    return icrc.finish(crc, packet[covered:] + data[transport + _UDP_SIZE : -icrc.SIZE])


def as_rxe_wants_it(data: bytes) -> bytes:
    """An IPv4 frame with rxe's ICRC, and without a UDP checksum, which the ICRC would make wrong."""
    checksum = _transport(data) + 6
    return data[:checksum] + bytes(2) + data[checksum + 2 : -icrc.SIZE] + _seal(data)


def mended(data: bytes) -> bytes:
    """The frame with its right ICRC, when it is a FLUSH with rxe's; every other one as it is."""
    bth = decode(data).bth
    if bth is None or bth.opcode != Opcode.RC_FLUSH or data[-icrc.SIZE :] != _seal(data):
        return data
    return data[: -icrc.SIZE] + icrc.compute(data[ETHERNET : -icrc.SIZE], _transport(data) - ETHERNET)
