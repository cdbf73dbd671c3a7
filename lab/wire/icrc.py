"""The invariant CRC of RoCEv2 (IBA vol. 1 section 7.8.1 and annex A17.3.3).

It is Ethernet's CRC-32 over the IP packet, with all fields that routers or switches may change set to ones. Eight
octets of ones precede the packet, in place of InfiniBand's local header. These fields are not covered: TOS or traffic
class, TTL or hop limit, flow label, both checksums, and the octet of the BTH with FECN and BECN.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

from lab.wire.header_fields import IP_VERSION, Bits, BthFields, Ipv4Fields, Ipv6Fields, UdpFields

SIZE: Final = 4
"""Bytes of the ICRC at the end of the UDP payload."""

_LENGTHS: Final = 64
"""Lengths of IP headers whose masks are cached: all of those without extension headers."""
_LOCAL_HEADER: Final = crc32(b"\xff" * 8)
_BTH_VARIANT: Final = Bits(BthFields.FECN.at, 1)
"""FECN, BECN and six reserved bits."""
_MASKED: Final = UdpFields.SIZE + _BTH_VARIANT.end
_VARIANT: Final = {
    4: (Ipv4Fields.TOS, Ipv4Fields.TTL, Ipv4Fields.CHECKSUM),
    6: (Ipv6Fields.TOS, Ipv6Fields.FLOW_LABEL, Ipv6Fields.TTL),
}
"""The fields of IP that may change, by its version."""


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
    covered = transport + _MASKED
    head = int.from_bytes(packet[:covered]) | _ones(packet[0] >> IP_VERSION.shift, transport)
    return crc32(head.to_bytes(covered), _LOCAL_HEADER), covered


@lru_cache(_LENGTHS)
def _ones(version: int, transport: int) -> int:
    """Return the masked fields as ones, in a number of the headers' bytes."""
    fields = [(0, bits) for bits in _VARIANT.get(version, _VARIANT[6])]
    fields += [(transport, UdpFields.CHECKSUM), (transport + UdpFields.SIZE, _BTH_VARIANT)]
    size = transport + _MASKED
    return sum(bits.deciding << 8 * (size - at - bits.end) for at, bits in fields)


def finish(crc: int, rest: bytes | memoryview) -> bytes:
    """Return the ICRC in wire order, from the CRC of ``begin`` and the octets that it does not cover."""
    return crc32(rest, crc).to_bytes(SIZE, "little")
