"""RoCEv2 and what carries it, put together from octets: the whole of a frame, given the frame that it carries."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.unit.analysis import packets
from tests.unit.analysis.mirrors import HEADERS, mirrored

if TYPE_CHECKING:
    from collections.abc import Callable

MACS = bytes.fromhex("0200000000aa0200000000bb")
IPV4, IPV6, MPLS = b"\x08\x00", b"\x86\xdd", b"\x88\x47"
V4, V6 = (b"\x0a\x01\0\1", b"\x0a\x01\0\2"), (bytes(15) + b"\1", bytes(15) + b"\2")
SEGMENTS = (bytes.fromhex("20010db8000000000000000000000001"), bytes.fromhex("20010db8000000000000000000000002"))


def ipv4(protocol: int, body: bytes, *, fragment: int = 0) -> bytes:
    """An IPv4 packet between two routers."""
    return struct.pack("!BBHHHBBH4s4s", 0x45, 2, 20 + len(body), 0, fragment, 63, protocol, 0, *V4) + body


def ipv6(following: int, body: bytes) -> bytes:
    """An IPv6 packet between two routers."""
    return struct.pack("!IHBB", 6 << 28 | 2 << 20, len(body), following, 63) + V6[0] + V6[1] + body


def udp(port: int, body: bytes) -> bytes:
    """A datagram without a checksum."""
    return struct.pack("!HHHH", 50000, port, 8 + len(body), 0) + body


def tags(*types: int) -> Callable[[bytes], bytes]:
    """Tags from the outside in, of VLANs 100, 101 and so on, with priority 3."""
    stack = b"".join(struct.pack("!HH", kind, 3 << 13 | 100 + index) for index, kind in enumerate(types))
    return lambda frame: frame[:12] + stack + frame[12:]


def labels(*values: int) -> bytes:
    """An MPLS stack; the last one has the S bit (RFC 3032 section 2.1)."""
    last = len(values) - 1
    return b"".join(struct.pack("!I", value << 12 | (at == last) << 8 | 64) for at, value in enumerate(values))


def extended(frame: bytes, *headers: tuple[int, bytes]) -> bytes:
    """The frame of IPv6 with extension headers between IPv6 and UDP: number, and what follows the next header."""
    numbers = [number for number, _ in headers] + [17]
    body = b"".join(bytes([numbers[at + 1]]) + rest for at, (_, rest) in enumerate(headers))
    size = int.from_bytes(frame[18:20]) + len(body)
    return frame[:18] + size.to_bytes(2) + bytes([numbers[0]]) + frame[21:54] + body + frame[54:]


HOP_BY_HOP = (0, b"\x00\x01\x04\0\0\0\0")
DESTINATION = (60, b"\x01\x01\x0c" + bytes(12))
ROUTING = (43, b"\x02\x00\x00" + bytes(4) + bytes(16))
FIRST_FRAGMENT = (44, b"\x00\x00\x01" + bytes(4))
LATER_FRAGMENT = (44, b"\x00\x00\x41" + bytes(4))
AUTHENTICATION = (51, b"\x04\0\0" + bytes(20))


def srv6(following: int, body: bytes) -> bytes:
    """IPv6 with a segment routing header of two segments (RFC 8754 section 2)."""
    srh = struct.pack("!BBBBBBH", following, 4, 4, 0, 1, 0, 0) + SEGMENTS[0] + SEGMENTS[1]
    return MACS + IPV6 + ipv6(43, srh + body)


def geneve(frame: bytes, options: bytes = b"", kind: int = 0x6558, vni: int = 77) -> bytes:
    """RFC 8926 section 3.4."""
    head = struct.pack("!BBHI", len(options) // 4, 0, kind, vni << 8) + options
    return MACS + IPV4 + ipv4(17, udp(6081, head + frame))


def rocev1(frame: bytes) -> bytes:
    """The same BTH and what is behind it with the GRH in place of IP and UDP (IBA vol. 1 annex A16)."""
    body = frame[42:]
    grh = struct.pack("!IHBB", 6 << 28 | 26 << 22, len(body), 0x1B, 64) + V6[0] + V6[1]
    return frame[:12] + b"\x89\x15" + grh + body


def _of(frame: bytes) -> tuple[bytes, bytes, int]:
    """The IP packet of a plain frame, its ethertype, and its number as a protocol."""
    return frame[14:], frame[12:14], 4 if frame[12:14] == IPV4 else 41


def in_ip(outer: int) -> Callable[[bytes], bytes]:
    """IP in IPv4 or IPv6 (RFC 2003, 2473 and 4213)."""

    def wrap(frame: bytes) -> bytes:
        inner, _, number = _of(frame)
        return MACS + (IPV4 + ipv4(number, inner) if outer == 4 else IPV6 + ipv6(number, inner))

    return wrap


def _gre(flags: int, more: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda frame: MACS + IPV4 + ipv4(47, struct.pack("!H", flags) + frame[12:14] + more + frame[14:])


ANY: dict[str, Callable[[bytes], bytes]] = {
    "bare": lambda frame: frame,
    "802.1Q": tags(0x8100),
    "QinQ 88a8": tags(0x88A8, 0x8100),
    "QinQ 9100": tags(0x9100, 0x8100),
    "three tags": tags(0x88A8, 0x9100, 0x8100),
    "MPLS": lambda frame: MACS + MPLS + labels(16001) + frame[14:],
    "MPLS, three labels": lambda frame: MACS + MPLS + labels(16001, 300, 5) + frame[14:],
    "EoMPLS": lambda frame: MACS + MPLS + labels(16001, 300) + bytes(4) + frame,
    "VXLAN": packets.vxlan,
    "VXLAN on 8472": lambda frame: MACS + IPV4 + ipv4(17, udp(8472, b"\x08\0\0\0\0\0\x0a\0" + frame)),
    "VXLAN over IPv6": lambda frame: MACS + IPV6 + ipv6(17, udp(4789, b"\x08\0\0\0\0\0\x0a\0" + frame)),
    "GENEVE": geneve,
    "GENEVE with options": lambda frame: geneve(frame, struct.pack("!HBBI", 0x0102, 0x80, 1, 7)),
    "GENEVE with IP": lambda frame: geneve(frame[14:], kind=int.from_bytes(frame[12:14])),
    "in IPv4": in_ip(4),
    "in IPv6": in_ip(6),
    "GRE": _gre(0),
    "GRE with checksum, key and number": _gre(0xB000, bytes(4) + b"\0\0\0\7" + bytes(4)),
    "GRE over IPv6": lambda frame: MACS + IPV6 + ipv6(47, bytes(2) + frame[12:14] + frame[14:]),
    "NVGRE": lambda frame: MACS + IPV4 + ipv4(47, b"\x20\x00\x65\x58\0\0\x4d\0" + frame),
    "SRv6": lambda frame: srv6(_of(frame)[2], frame[14:]),
    "SRv6 with Ethernet": lambda frame: srv6(143, frame),
    "MPLS in UDP": lambda frame: MACS + IPV4 + ipv4(17, udp(6635, labels(5) + frame[14:])),
    "MPLS in IP": lambda frame: MACS + IPV4 + ipv4(137, labels(5) + frame[14:]),
    "VXLAN in QinQ": lambda frame: tags(0x9100, 0x8100)(packets.vxlan(tags(0x8100)(frame))),
    "VXLAN in VXLAN": lambda frame: packets.vxlan(packets.vxlan(frame, 20)),
    **{
        f"ERSPAN {name}": lambda frame, header=header: mirrored(frame, header)  # type: ignore[misc]  # bound here
        for name, header in HEADERS.items()
    },
}
"""What carries any frame of IPv4 or IPv6."""
TUNNELS = {name: wrap for name, wrap in ANY.items() if not name.startswith("ERSPAN")}
"""Those that a capture's reader leaves as they are."""
EXTENDED: dict[str, Callable[[bytes], bytes]] = {
    "hop by hop": lambda frame: extended(frame, HOP_BY_HOP),
    "destination options": lambda frame: extended(frame, DESTINATION),
    "routing": lambda frame: extended(frame, ROUTING),
    "authentication": lambda frame: extended(frame, AUTHENTICATION),
    "first fragment": lambda frame: extended(frame, FIRST_FRAGMENT),
    "all of them": lambda frame: extended(frame, HOP_BY_HOP, DESTINATION, ROUTING, FIRST_FRAGMENT, DESTINATION),
}
"""Frames of IPv6 only."""
