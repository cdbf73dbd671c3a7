"""The invariant CRC of RoCEv2 (IBA vol. 1 section 7.8.1 and annex A17.3.3).

It is Ethernet's CRC-32 over the IP packet, with all fields that routers or switches may change set to ones. Eight
octets of ones precede the packet, in place of InfiniBand's local header. These fields are not covered: TOS or traffic
class, TTL or hop limit, flow label, both checksums, and the octet of the BTH with FECN and BECN.
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
    """Return the ICRC of an IP packet, as four octets in wire order.

    ``packet`` begins with the IP header and ends before the ICRC; its UDP header begins at ``transport``. ValueError
    if it is too short for the masked fields.
    """
    crc, covered = begin(packet, transport)
    return finish(crc, packet[covered:])


def begin(packet: bytes | memoryview, transport: int) -> tuple[int, int]:
    """Return the CRC of the headers with masked fields, and the number of octets that it covers.

    Packets that differ only in later octets, like the PSN, share this result. ValueError as ``compute``.
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
    """Return the ICRC in wire order, from the CRC of ``begin`` and the octets that it does not cover."""
    return crc32(rest, crc).to_bytes(SIZE, "little")
