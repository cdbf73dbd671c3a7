"""A fast decoder of Ethernet frames, without scapy: it fills in the values of the headers that the walk finds.

Frames are untrusted: ``decode`` never raises. A ``DecodedFrame`` has all that could be decoded, and its ``fault``
says in one line why decoding stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from socket import AF_INET, AF_INET6, inet_ntop
from typing import TYPE_CHECKING, Final

from lab.wire import icrc
from lab.wire.header_fields import (
    DSCP,
    ECN,
    IP_VERSION,
    MAC_BYTES,
    EthernetFields,
    Ipv4Fields,
    Ipv6Fields,
    Ipv6RoutingFields,
    MplsFields,
    UdpFields,
    VlanFields,
    VxlanFields,
    words,
)
from lab.wire.headers import is_stray_pause
from lab.wire.layers import BTH_HEADERS, MAX_HEADERS, MAX_TUNNELS, RULES, VNI_VALID, Header, WalkStop
from lab.wire.transport import Octets, Stop, mac_control, roce
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE
from lab.wire.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.wire.headers import Aeth, AtomicEth, Bth, Deth, Feth, PauseFrame, PfcFrame, Reth
    from lab.wire.mad import Mad
    from lab.wire.walk import HeaderWalk, WalkedHeader

_SEGMENT_ROUTING: Final = 4
"""Routing type of SRv6 (RFC 8754 section 2)."""
_ETHERNET: Final = words(EthernetFields.DST, EthernetFields.SRC, octets=(EthernetFields.DST, EthernetFields.SRC))
_IPV4: Final = words(
    Ipv4Fields.TOS, Ipv4Fields.TTL, Ipv4Fields.SRC, Ipv4Fields.DST, octets=(Ipv4Fields.SRC, Ipv4Fields.DST)
)
_IPV6: Final = words(
    Ipv6Fields.TOS, Ipv6Fields.TTL, Ipv6Fields.SRC, Ipv6Fields.DST, octets=(Ipv6Fields.SRC, Ipv6Fields.DST)
)
_PORTS: Final = words(UdpFields.SPORT, UdpFields.DPORT)
_PLAIN_IP: Final = ("IPv4", "IPv6")


class Icrc(Enum):
    """The result of the ICRC check.

    UNKNOWN if the packet was truncated, or if its coverage is not specified: RoCEv1, and IPv6 extension headers.
    """

    OK = "ok"
    BAD = "BAD"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class DecodedFrame:
    """One frame, filled in as far as its bytes allow. ``length`` is in bytes on the wire, without FCS.

    * ``src``, ``dst``: IP addresses, or MAC addresses without IP. ``ttl``: TTL, or IPv6's hop limit.
    * ``vlan``: of the last tag. ``svlan``: of the first of several tags. ``mpls``: labels, the top of the stack
      first.
    * ``payload``: bytes after the RoCEv2 headers, without padding and ICRC.
    * ``origremdt``: the original value of an atomic operation. ``ieth``: the R_Key that a SEND with Invalidate
      revokes.
    * ``mad``: the management datagram to QP 0 or 1. ``xrcsrq``: the receive queue of an XRC request.
    * ``inner``: the frame or IP packet in a tunnel. ``vni``: the VNI of that tunnel, if it has one. ``tunnels``: the
      number of frames around this one.
    * ``short``: a mirror truncated it without adjusting its length fields. ``fragment``: it is a first fragment.
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
        """``fault``, or that of the inner frame; empty if neither has one."""
        return self.fault or (self.inner.damage if self.inner is not None else "")

    @property
    def stray(self) -> bool:
        """Whether it is Pause or PFC that pauses nothing, because receivers ignore its destination address."""
        if self.pause is None and self.pfc is None:
            return False
        octets = self.dst.split(":")
        is_known = len(octets) == MAC_BYTES and all(len(each) == 2 for each in octets)
        opcode = PAUSE_OPCODE if self.pfc is None else PFC_OPCODE
        return bool(is_stray_pause(opcode, int("".join(octets), 16) if is_known else 0))

    @property
    def cut(self) -> bool:
        """Whether this frame or an inner one is ``short``."""
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
    """Add an inner frame or IP packet, and return it."""
    if header is not Header.ETHERNET and frame.protocol in _PLAIN_IP:
        frame.protocol = f"{RULES[header].name} in {frame.protocol}"
    frame.inner = DecodedFrame(length, frame.tunnels + 1)
    return frame.inner


def _finish(frame: DecodedFrame, octets: Octets, found: HeaderWalk) -> None:
    """Decode the data after the last header, or name the protocol there."""
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
        else:  # the version is unknown
            frame.protocol = RULES[found.missed].name
    except Stop as why:
        frame.fault = str(why)


def _check(data: bytes, found: HeaderWalk) -> Icrc | None:
    """Check the ICRC of RoCEv2 directly on IP. Annex A17.3.3 does not cover extension headers."""
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
    """Return a text on why the walk stopped."""
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
    """Return a text on what is wrong with a header; ``room`` is the number of bytes available to it."""
    name = RULES[header].name
    match header:
        case Header.UDP:
            return f"UDP says {UdpFields.LENGTH.read(octets)} bytes, IP has {room}"
        case Header.IPV4:
            version, size = IP_VERSION.read(octets), Ipv4Fields.IHL.read(octets) * Ipv4Fields.WORD
            total = Ipv4Fields.LENGTH.read(octets) or room
            return f"IPv4 header is damaged: version {version}, {size} bytes of {total}"
        case Header.VXLAN:
            flags = VxlanFields.FLAGS.read(octets)
            return f"VXLAN flags are {flags:#04x}: without I ({VNI_VALID:#04x}) there is no VNI"
        case _:
            return f"{name} header is damaged: version {IP_VERSION.read(octets)}"


# Values of each header


def _fill(frame: DecodedFrame, data: bytes, layer: WalkedHeader) -> None:
    if layer.header is not Header.ETHERNET:
        frame.protocol = RULES[layer.header].name
    if layer.header in _FILL:
        _FILL[layer.header](frame, data, layer.at)


def _ethernet(frame: DecodedFrame, data: bytes, at: int) -> None:
    dst, src = _ETHERNET.unpack_from(data, at)
    frame.dst, frame.src = dst.hex(":"), src.hex(":")


def _tag(frame: DecodedFrame, data: bytes, at: int) -> None:
    if frame.vlan is not None and frame.svlan is None:
        frame.svlan = frame.vlan
    frame.vlan, frame.pcp = VlanFields.VLAN.read(data, at), VlanFields.PCP.read(data, at)


def _label(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.mpls += (MplsFields.LABEL.read(data, at),)


def _ipv4(frame: DecodedFrame, data: bytes, at: int) -> None:
    tos, frame.ttl, src, dst = _IPV4.unpack_from(data, at)
    frame.src, frame.dst = inet_ntop(AF_INET, src), inet_ntop(AF_INET, dst)
    frame.dscp, frame.ecn = DSCP.of(tos), ECN.of(tos)


def _ipv6(frame: DecodedFrame, data: bytes, at: int) -> None:
    word, frame.ttl, src, dst = _IPV6.unpack_from(data, at)
    frame.src, frame.dst = inet_ntop(AF_INET6, src), inet_ntop(AF_INET6, dst)
    tos = Ipv6Fields.TOS.of(word)
    frame.dscp, frame.ecn = DSCP.of(tos), ECN.of(tos)


def _routing(frame: DecodedFrame, data: bytes, at: int) -> None:
    if Ipv6RoutingFields.TYPE.read(data, at) == _SEGMENT_ROUTING:
        frame.protocol = "SRv6"


def _ports(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.sport, frame.dport = _PORTS.unpack_from(data, at)


def _segment(frame: DecodedFrame, data: bytes, at: int) -> None:
    frame.vni = VxlanFields.VNI.read(data, at)


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
