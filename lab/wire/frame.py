"""A fast decoder of Ethernet frames, without scapy: all of RoCEv2, PFC and Pause, and what VXLAN carries.

Frames are untrusted: ``decode`` never raises. What it understood stays in the ``Frame``, and ``fault`` says in one
line why it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.wire import icrc, mad
from lab.wire.headers import Aeth, AtomicEth, Bth, Deth, Feth, Pause, Pfc, Reth
from lab.wire.opcodes import ROCEV2_PORT, Extension, extensions

if TYPE_CHECKING:
    from lab.wire.mad import Mad

ETHERNET: Final = 14
"""Bytes of an Ethernet header without tags."""
IPV4_TYPE: Final = 0x0800
IPV6_TYPE: Final = 0x86DD
FRAGMENT: Final = 0x3FFF
"""Bits of IPv4 that say so: more fragments, or an offset (RFC 791 section 3.1)."""
UDP_PROTOCOL: Final = 17
MAC_CONTROL_TYPE: Final = 0x8808
"""Ethertype of MAC control (IEEE 802.3 clause 31)."""
PAUSE_OPCODE: Final = 0x0001
PFC_OPCODE: Final = 0x0101
VXLAN_PORT: Final = 4789
"""UDP destination port of VXLAN (RFC 7348 section 5)."""
VNI_VALID: Final = 0x08
"""The I flag (RFC 7348 section 5): without it a packet names no segment. The other seven are reserved."""
MAX_TUNNELS: Final = 4
"""Frames inside frames that are taken apart: no fabric nests deeper, and hostile ones must not exhaust the stack."""
VLAN_TAG: Final = 4
"""Bytes of a tag (IEEE 802.1Q clause 9.3), between the addresses and what it tags."""
VLAN_TYPES: Final = (0x8100, 0x88A8)
"""Ethertypes that announce a tag: of customers, and of providers (IEEE 802.1Q table 9-1)."""
_IPV4: Final = Struct("!BBHHHBBH4s4s")
_IPV6: Final = Struct("!IHBB16s16s")
_UDP: Final = Struct("!HHHH")
_PORTS: Final = Struct("!HH")
_WORD: Final = Struct("!I")
_LONG: Final = Struct("!Q")
_SHORT: Final = Struct("!H")
_VXLAN: Final = Struct("!B3xI")
_BTH_SIZE: Final = 12
_LOW_24: Final = 0xFFFFFF
_PFC_OPERANDS: Final = 18  # the vector and eight times

_ETHERTYPES: Final = {
    IPV4_TYPE: "IPv4",
    0x0806: "ARP",
    IPV6_TYPE: "IPv6",
    MAC_CONTROL_TYPE: "MAC control",
    0x88CC: "LLDP",
}
_TCP: Final = 6
_PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", _TCP: "TCP", UDP_PROTOCOL: "UDP", 58: "ICMPv6", 89: "OSPF"}


class Icrc(Enum):
    """What came of checking the ICRC; UNKNOWN when the capture does not hold the whole packet."""

    OK = "ok"
    BAD = "BAD"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Frame:
    """One frame, filled in as far as its bytes allow. ``length`` is in bytes on the wire, without FCS.

    ``src`` and ``dst`` are IP addresses, or MAC addresses where there is no IP; ``ttl`` is IPv6's hop limit, too.
    ``payload`` is the number of bytes after the RoCEv2 headers, less padding and ICRC. ``origremdt`` is what an
    atomic operation found, ``ieth`` the R_Key that a SEND with Invalidate revokes, ``mad`` what a datagram to QP 0 or
    1 says, ``xrcsrq`` the receive queue of an XRC request. ``inner`` is the frame that VXLAN carries for the segment
    ``vni``, and ``tunnels`` counts the frames that this one is inside of. ``short``: a mirror cut it before its
    length was written.
    """

    length: int
    tunnels: int = 0
    src: str = ""
    dst: str = ""
    vlan: int | None = None
    pcp: int | None = None
    protocol: str = ""
    dscp: int | None = None
    ecn: int | None = None
    ttl: int | None = None
    sport: int | None = None
    dport: int | None = None
    bth: Bth | None = None
    deth: Deth | None = None
    feth: Feth | None = None
    reth: Reth | None = None
    atomiceth: AtomicEth | None = None
    aeth: Aeth | None = None
    origremdt: int | None = None
    immdt: int | None = None
    ieth: int | None = None
    xrcsrq: int | None = None
    payload: int | None = None
    icrc: Icrc | None = None
    pause: Pause | None = None
    pfc: Pfc | None = None
    vni: int | None = None
    inner: Frame | None = None
    mad: Mad | None = None
    short: bool = False
    fault: str = ""

    @property
    def damage(self) -> str:
        """``fault``, or that of the frame inside; empty when both make sense."""
        return self.fault or (self.inner.damage if self.inner is not None else "")

    @property
    def cut(self) -> bool:
        """``short``, or that of the frame inside."""
        return self.short or (self.inner is not None and self.inner.cut)


class _Stop(Exception):
    """Decoding cannot go on; the text says why."""


class _Span(NamedTuple):
    """Where an IP packet starts, its transport header starts, and what holds the transport ends."""

    ip: int
    transport: int
    end: int


def decode(data: bytes, length: int | None = None) -> Frame:
    """Decode the captured bytes of a frame that had ``length`` bytes on the wire (default: all captured)."""
    frame = Frame(len(data) if length is None else length)
    _decode(frame, data)
    return frame


def _decode(frame: Frame, data: bytes) -> None:
    try:
        _ethernet(frame, data)
    except _Stop as why:
        frame.fault = str(why)


def _need(frame: Frame, data: bytes, end: int, what: str) -> None:
    if end > len(data):
        cause = "cut by the snap length" if frame.length > len(data) else "truncated"
        raise _Stop(f"{cause}: {what} would end at byte {end}, captured are {len(data)}")


def _mac(octets: bytes) -> str:
    return octets.hex(":")


def _ethernet(frame: Frame, data: bytes) -> None:
    _need(frame, data, ETHERNET, "the Ethernet header")
    frame.dst, frame.src = _mac(data[:6]), _mac(data[6:12])
    offset = ETHERNET
    kind = int.from_bytes(data[12:14])
    while kind in VLAN_TYPES:
        _need(frame, data, offset + VLAN_TAG, "the VLAN tag")
        tci = int.from_bytes(data[offset : offset + 2])
        frame.vlan, frame.pcp = tci & 0xFFF, tci >> 13
        kind = int.from_bytes(data[offset + 2 : offset + 4])
        offset += VLAN_TAG
    frame.protocol = _ETHERTYPES.get(kind, f"ethertype {kind:#06x}")
    if kind == IPV4_TYPE:
        _ipv4(frame, data, offset)
    elif kind == IPV6_TYPE:
        _ipv6(frame, data, offset)
    elif kind == MAC_CONTROL_TYPE:
        _mac_control(frame, data, offset)


def _mac_control(frame: Frame, data: bytes, start: int) -> None:
    """PAUSE (IEEE 802.3 annex 31B) and PFC (annex 31D); other opcodes are named by their number."""
    operands = start + _SHORT.size
    _need(frame, data, operands, "the MAC control opcode")
    (opcode,) = _SHORT.unpack_from(data, start)
    if opcode == PAUSE_OPCODE:
        _need(frame, data, operands + _SHORT.size, "pause_time")
        frame.pause = Pause(*_SHORT.unpack_from(data, operands))
        frame.protocol = "Pause"
    elif opcode == PFC_OPCODE:
        _need(frame, data, operands + _PFC_OPERANDS, "the time vector")
        frame.pfc = Pfc.unpack(data, operands)
        frame.protocol = "PFC"
    else:
        frame.protocol = f"MAC control opcode {opcode:#06x}"


def _ipv4(frame: Frame, data: bytes, start: int) -> None:
    _need(frame, data, start + _IPV4.size, "the IPv4 header")
    first, tos, total, _, fragment, ttl, protocol, _, src, dst = _IPV4.unpack_from(data, start)
    header = (first & 0x0F) * 4
    total = total or frame.length - start  # more than 16 bits hold, as BIG TCP leaves it
    if first >> 4 != 4 or header < _IPV4.size or total < header:
        raise _Stop(f"IPv4 header is damaged: version {first >> 4}, {header} bytes of {total}")
    frame.src, frame.dst = inet_ntop(AF_INET, src), inet_ntop(AF_INET, dst)
    frame.dscp, frame.ecn, frame.ttl = tos >> 2, tos & 3, ttl
    if fragment & FRAGMENT:
        frame.protocol = "IPv4 fragment"
        return
    _transport(frame, data, _Span(start, start + header, start + total), protocol)


def _ipv6(frame: Frame, data: bytes, start: int) -> None:
    _need(frame, data, start + _IPV6.size, "the IPv6 header")
    first, size, protocol, frame.ttl, src, dst = _IPV6.unpack_from(data, start)
    if first >> 28 != 6:
        raise _Stop(f"IPv6 header is damaged: version {first >> 28}")
    frame.src, frame.dst = inet_ntop(AF_INET6, src), inet_ntop(AF_INET6, dst)
    frame.dscp, frame.ecn = first >> 22 & 0x3F, first >> 20 & 3
    offset = start + _IPV6.size
    _transport(frame, data, _Span(start, offset, offset + size), protocol)


def _transport(frame: Frame, data: bytes, span: _Span, protocol: int) -> None:
    frame.protocol = _PROTOCOLS.get(protocol, f"IP protocol {protocol}")
    frame.short = span.end > frame.length
    if protocol not in {_TCP, UDP_PROTOCOL}:
        return
    _need(frame, data, span.transport + _PORTS.size, "the port numbers")
    frame.sport, frame.dport = _PORTS.unpack_from(data, span.transport)
    if protocol == UDP_PROTOCOL:
        _udp(frame, data, span)


def _udp(frame: Frame, data: bytes, span: _Span) -> None:
    _need(frame, data, span.transport + _UDP.size, "the UDP header")
    size = _UDP.unpack_from(data, span.transport)[2]
    if not _UDP.size <= size <= span.end - span.transport:
        raise _Stop(f"UDP says {size} bytes, IP has {span.end - span.transport}")
    if frame.dport == ROCEV2_PORT:
        frame.protocol = "RoCEv2"
        _rocev2(frame, data, span._replace(end=span.transport + size))
    elif frame.dport == VXLAN_PORT:
        frame.protocol = "VXLAN"
        _vxlan(frame, data, span._replace(end=span.transport + size))


def _vxlan(frame: Frame, data: bytes, span: _Span) -> None:
    start = span.transport + _UDP.size
    inner = start + _VXLAN.size
    if inner > span.end:
        raise _Stop(f"UDP has {span.end - start} bytes, VXLAN needs {_VXLAN.size}")
    _need(frame, data, inner, "the VXLAN header")
    flags, vni = _VXLAN.unpack_from(data, start)
    if not flags & VNI_VALID:
        raise _Stop(f"VXLAN flags are {flags:#04x}: without I ({VNI_VALID:#04x}) there is no VNI")
    frame.vni = vni >> 8
    if frame.tunnels == MAX_TUNNELS:
        raise _Stop(f"VXLAN nests deeper than {MAX_TUNNELS} frames")
    frame.inner = Frame(span.end - inner, frame.tunnels + 1)
    _decode(frame.inner, data[inner : span.end])


def _rocev2(frame: Frame, data: bytes, span: _Span) -> None:
    offset = span.transport + _UDP.size
    trailer = span.end - icrc.SIZE
    if trailer < offset + _BTH_SIZE:
        raise _Stop(f"UDP has {span.end - offset} bytes, BTH and ICRC need {_BTH_SIZE + icrc.SIZE}")
    _need(frame, data, offset + _BTH_SIZE, "the BTH")
    frame.bth = Bth.unpack(data, offset)
    frame.icrc = _check(data, span)
    offset = _extensions(frame, data, offset + _BTH_SIZE, trailer)
    if trailer - offset < frame.bth.pad:
        raise _Stop(f"PadCnt {frame.bth.pad} exceeds the payload of {trailer - offset} bytes")
    frame.payload = trailer - offset - frame.bth.pad
    if frame.deth is not None and frame.bth.destqp <= mad.GENERAL_QP:
        frame.mad = mad.parse(data[offset : min(trailer, offset + mad.SIZE)])


def _check(data: bytes, span: _Span) -> Icrc:
    if span.end > len(data):
        return Icrc.UNKNOWN
    trailer = span.end - icrc.SIZE
    right = icrc.compute(data[span.ip : trailer], span.transport - span.ip)
    return Icrc.OK if data[trailer : span.end] == right else Icrc.BAD


def _read(frame: Frame, data: bytes, offset: int, extension: Extension) -> None:
    """Fill in what one extension header says; the reserved octets of a CNP say nothing, RD is only named."""
    match extension:
        case Extension.DETH:
            frame.deth = Deth.unpack(data, offset)
        case Extension.FETH:
            frame.feth = Feth.unpack(data, offset)
        case Extension.RETH:
            frame.reth = Reth.unpack(data, offset)
        case Extension.ATOMIC_ETH:
            frame.atomiceth = AtomicEth.unpack(data, offset)
        case Extension.AETH:
            frame.aeth = Aeth.unpack(data, offset)
        case Extension.ATOMIC_ACK_ETH:
            (frame.origremdt,) = _LONG.unpack_from(data, offset)
        case _:
            _read_word(frame, _WORD.unpack_from(data, offset)[0], extension)


def _read_word(frame: Frame, word: int, extension: Extension) -> None:
    match extension:
        case Extension.IMMDT:
            frame.immdt = word
        case Extension.IETH:
            frame.ieth = word
        case Extension.XRCETH:
            frame.xrcsrq = word & _LOW_24
        case _:
            pass


def _extensions(frame: Frame, data: bytes, offset: int, trailer: int) -> int:
    """Read what the opcode says follows the BTH; the offset after it."""
    for extension in extensions(frame.bth.opcode) if frame.bth else ():
        after = offset + extension.size
        if after > trailer:
            raise _Stop(f"no room for {extension.label} between BTH and ICRC")
        _need(frame, data, after, extension.label)
        _read(frame, data, offset, extension)
        offset = after
    return offset
