"""The invariant CRC of RoCEv2 (IBA vol. 1 section 7.8.1 and annex A17.3.3).

It is Ethernet's CRC-32 over the IP packet with every field that a router or switch may change taken as ones,
preceded by eight octets of ones that stand for InfiniBand's local header. Not covered, therefore: TOS or
traffic class, TTL or hop limit, flow label, both checksums, and the octet of the BTH that holds FECN and BECN.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

SIZE: Final = 4
"""Bytes of the ICRC at the end of the UDP payload."""

_LOCAL_HEADER: Final = crc32(b"\xff" * 8)
_UDP_SIZE: Final = 8
_UDP_CHECKSUM: Final = 6
_BTH_VARIANT: Final = 4  # FECN, BECN and six reserved bits
_MASKED: Final = _UDP_SIZE + _BTH_VARIANT + 1


def compute(packet: bytes | memoryview, transport: int) -> bytes:
    """The ICRC of an IP packet, as its four octets on the wire.

    ``packet`` runs from the first octet of the IP header to the last before the ICRC; its UDP header starts at
    ``transport``. ValueError when it is too short to hold the fields that are masked.
    """
    crc, covered = begin(packet, transport)
    return finish(crc, packet[covered:])


def begin(packet: bytes | memoryview, transport: int) -> tuple[int, int]:
    """The CRC of the headers that hold the masked fields, and how many octets these are.

    It stays the same for packets that differ only further on, as in their PSN. ValueError as ``compute``.
    """
    if len(packet) < transport + _MASKED:
        raise ValueError(f"{len(packet)} bytes hold no RoCEv2 packet with UDP at {transport}")
    head = bytearray(packet[: transport + _MASKED])
    if head[0] >> 4 == 4:
        head[1] = 0xFF
        head[8] = 0xFF
        head[10:12] = b"\xff\xff"
    else:
        head[0] |= 0x0F
        head[1:4] = b"\xff\xff\xff"
        head[7] = 0xFF
    head[transport + _UDP_CHECKSUM : transport + _UDP_SIZE] = b"\xff\xff"
    head[transport + _UDP_SIZE + _BTH_VARIANT] = 0xFF
    return crc32(head, _LOCAL_HEADER), len(head)


def finish(crc: int, rest: bytes | memoryview) -> bytes:
    """The ICRC as its four octets on the wire: ``crc`` from ``begin``, and the octets after those."""
    return crc32(rest, crc).to_bytes(SIZE, "little")
