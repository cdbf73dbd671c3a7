"""A fast decoder of Ethernet frames, without scapy: what the walk finds, as values.

Frames are untrusted: ``decode`` never raises. What it understood stays in the ``Frame``, and ``fault`` says in one
line why it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from socket import AF_INET, AF_INET6, inet_ntop
from struct import Struct
from typing import TYPE_CHECKING, Final

from lab.wire import icrc
from lab.wire.layers import BTH_HEADERS, MAX_HEADERS, MAX_TUNNELS, RULES, VNI_VALID, Header, WalkStop
from lab.wire.transport import Octets, Stop, mac_control, roce
from lab.wire.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.wire.headers import Aeth, AtomicEth, Bth, Deth, Feth, PauseFrame, PfcFrame, Reth
    from lab.wire.mad import Mad
    from lab.wire.walk import HeaderWalk, WalkedHeader

_SEGMENT_ROUTING: Final = 4
"""Routing type of SRv6 (RFC 8754 section 2)."""
_WORD: Final = Struct("!I")
_SHORT: Final = Struct("!H")
_PORTS: Final = Struct("!HH")
_PLAIN_IP: Final = ("IPv4", "IPv6")


class Icrc(Enum):
    """What came of checking the ICRC.

    UNKNOWN when the capture does not hold the whole packet,
    or where nothing says over what it is: RoCEv1, and IPv6 extension headers.
    """

    OK = "ok"
    BAD = "BAD"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class DecodedFrame:
    """One frame, filled in as far as its bytes allow. ``length`` is in bytes on the wire, without FCS.

    ``src`` and ``dst`` are IP addresses, or MAC addresses where there is no IP; ``ttl`` is IPv6's hop limit, too.
    ``payload`` is the number of bytes after the RoCEv2 headers, less padding and ICRC. ``origremdt`` is what an
    atomic operation found, ``ieth`` the R_Key that a SEND with Invalidate revokes, ``mad`` what a datagram to QP 0 or
    1 says, ``xrcsrq`` the receive queue of an XRC request. ``vlan`` is that of the last tag, and ``svlan`` of the
    first where there are several; ``mpls`` are labels, the top of the stack first. ``inner`` is the frame or IP
    packet that a tunnel carries, for the segment ``vni`` where it has one, and ``tunnels`` counts the frames that
    this one is inside of. ``short``: a mirror cut it before its length was written. ``fragment``: it is the first one
    of a packet in fragments.
    """

    length: int
    tunnels: int = 0
    src: str = ""
    dst: str = ""
    svlan: int | None = None
    vlan: int | None = None
    pcp: int | None = None
    mpls: tuple[int, ...] = ()
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
    pause: PauseFrame | None = None
    pfc: PfcFrame | None = None
    vni: int | None = None
    inner: DecodedFrame | None = None
    mad: Mad | None = None
    short: bool = False
    fragment: bool = False
    fault: str = ""

    @property
    def damage(self) -> str:
        """``fault``, or that of the frame inside; empty when both make sense."""
        return self.fault or (self.inner.damage if self.inner is not None else "")

    @property
    def cut(self) -> bool:
        """``short``, or that of the frame inside."""
        return self.short or (self.inner is not None and self.inner.cut)


def decode(data: bytes, length: int | None = None) -> DecodedFrame:
    """Decode the captured bytes of a frame that had ``length`` bytes on the wire (default: all captured)."""
    outermost = frame = DecodedFrame(len(data) if length is None else length)
    found = walk(data, frame.length)
    end = frame.length
    for layer in found.layers:
        if layer.opens:
            frame = _open(frame, layer.header, end - layer.at)
        _fill(frame, data, layer)
        end = layer.end
    if found.opens and found.fault is not WalkStop.NONE:
        frame = _open(frame, found.missed, found.end - found.at)
    frame.short, frame.fragment = found.short, found.fragment
    octets = Octets(data, outermost.length)
    frame.fault = _fault(found, octets)
    if not frame.fault and found.layers:
        _finish(frame, octets, found)
    return outermost


def _open(frame: DecodedFrame, header: Header, length: int) -> DecodedFrame:
    """The frame, or IP packet, inside this one."""
    if header is not Header.ETHERNET and frame.protocol in _PLAIN_IP:
        frame.protocol = f"{RULES[header].name} in {frame.protocol}"
    frame.inner = DecodedFrame(length, frame.tunnels + 1)
    return frame.inner


def _finish(frame: DecodedFrame, octets: Octets, found: HeaderWalk) -> None:
    """What is behind the last header, or its name."""
    last = found.layers[-1]
    try:
        if found.later:
            frame.protocol = f"{RULES[last.header].name.removesuffix(' fragment')} fragment"
        elif last.header in BTH_HEADERS:
            frame.icrc = _check(octets.data, found)
            roce(frame, octets, found)
        elif last.header is Header.MAC_CONTROL:
            mac_control(frame, octets, last.at)
        elif found.missed is last.header:
            frame.protocol = RULES[last.header].other(last.number) if last.number >= 0 else frame.protocol
        else:  # of a version that is not known
            frame.protocol = RULES[found.missed].name
    except Stop as why:
        frame.fault = str(why)


def _check(data: bytes, found: HeaderWalk) -> Icrc | None:
    """Of RoCEv2 directly on IP: annex A17.3.3 does not say what extension headers do to it."""
    *_, network, transport, bth = found.layers
    if found.end < bth.after + icrc.SIZE:
        return None
    whole = found.end <= len(data) and not found.fragment
    if not whole or network.header not in {Header.IPV4, Header.IPV6} or transport.header is not Header.UDP:
        return Icrc.UNKNOWN
    trailer = found.end - icrc.SIZE
    right = icrc.compute(data[network.at : trailer], transport.at - network.at)
    return Icrc.OK if data[trailer : found.end] == right else Icrc.BAD


def _fault(found: HeaderWalk, octets: Octets) -> str:
    """Why the walk stopped, in words."""
    rule, room = RULES[found.missed], found.end - found.at
    if found.fault is WalkStop.CUT:
        what = "the BTH" if found.missed in BTH_HEADERS else f"the {rule.name} header"
        return octets.cut(found.at + rule.size, what)
    if found.fault is WalkStop.ROOM:
        carrier = RULES[found.layers[-1].header].name if found.layers else "the wire"
        return f"{carrier} has {room} bytes, {rule.name} needs {rule.size}"
    if found.fault is WalkStop.DEEP:
        return f"more than {MAX_TUNNELS} tunnels in each other, or {MAX_HEADERS} headers"
    return _damage(found.missed, octets.data[found.at :], room) if found.fault else ""


def _damage(header: Header, octets: bytes, room: int) -> str:
    """What is wrong with a header that begins so, and has ``room`` bytes for it and what it carries."""
    name = RULES[header].name
    match header:
        case Header.UDP:
            return f"UDP says {_SHORT.unpack_from(octets, 4)[0]} bytes, IP has {room}"
        case Header.IPV4:
            total = _SHORT.unpack_from(octets, 2)[0] or room
            return f"IPv4 header is damaged: version {octets[0] >> 4}, {(octets[0] & 15) * 4} bytes of {total}"
        case Header.VXLAN:
            return f"VXLAN flags are {octets[0]:#04x}: without I ({VNI_VALID:#04x}) there is no VNI"
        case _:
            return f"{name} header is damaged: version {octets[0] >> 4}"


# What each header says


def _fill(frame: DecodedFrame, data: bytes, layer: WalkedHeader) -> None:
    if layer.header is not Header.ETHERNET:
        frame.protocol = RULES[layer.header].name
    if layer.header in _FILL:
        _FILL[layer.header](frame, data, layer.at)


def _ethernet(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.dst, frame.src = data[at : at + 6].hex(":"), data[at + 6 : at + 12].hex(":")


def _tag(frame: DecodedFrame, data: bytes, at: int) -> None:
    (tci,) = _SHORT.unpack_from(data, at)
    if frame.vlan is not None and frame.svlan is None:
        frame.svlan = frame.vlan
    frame.vlan, frame.pcp = tci & 0xFFF, tci >> 13


def _label(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.mpls += (_WORD.unpack_from(data, at)[0] >> 12,)


def _ipv4(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.src, frame.dst = inet_ntop(AF_INET, data[at + 12 : at + 16]), inet_ntop(AF_INET, data[at + 16 : at + 20])
    frame.dscp, frame.ecn, frame.ttl = data[at + 1] >> 2, data[at + 1] & 3, data[at + 8]


def _ipv6(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.src, frame.dst = inet_ntop(AF_INET6, data[at + 8 : at + 24]), inet_ntop(AF_INET6, data[at + 24 : at + 40])
    traffic_class = _SHORT.unpack_from(data, at)[0] >> 4 & 0xFF
    frame.dscp, frame.ecn, frame.ttl = traffic_class >> 2, traffic_class & 3, data[at + 7]


def _routing(frame: DecodedFrame, data: bytes, at: int) -> None:
    if data[at + 2] == _SEGMENT_ROUTING:
        frame.protocol = "SRv6"


def _ports(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.sport, frame.dport = _PORTS.unpack_from(data, at)


def _segment(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.vni = _WORD.unpack_from(data, at + 4)[0] >> 8


_FILL: Final[dict[Header, Callable[[DecodedFrame, bytes, int], None]]] = {
    Header.ETHERNET: _ethernet,
    Header.VLAN: _tag,
    Header.MPLS: _label,
    Header.IPV4: _ipv4,
    Header.IPV6: _ipv6,
    Header.GRH: _ipv6,
    Header.ROUTING: _routing,
    Header.TCP: _ports,
    Header.UDP: _ports,
    Header.VXLAN: _segment,
    Header.GENEVE: _segment,
}
