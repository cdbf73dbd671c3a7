"""Build frames from typed values, on top of the scapy layers of ``rocev2`` and ``ethernet``."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from lab.wire.ethernet import MAC_CONTROL_ADDRESS, PFC, VXLAN, MACControl, Pause
from lab.wire.headers import CLASSES
from lab.wire.rocev2 import AETH, BTH, CNP, DETH, FETH, IETH, RETH, AtomicAckETH, AtomicETH, ImmDt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scapy.packet import Packet

    from lab.wire import headers
    from lab.wire.opcodes import Opcode

ECT0: Final = 2
"""ECN-capable, not yet marked (RFC 3168 section 5)."""
_SHORTEST: Final = 60  # bytes of an Ethernet frame without its FCS


@dataclass(frozen=True, slots=True)
class Path:
    """The headers below RoCEv2; the address family is that of ``dst``. ``entropy`` is the UDP source port."""

    src_mac: str
    dst_mac: str
    src: str
    dst: str
    entropy: int = 0xC000
    dscp: int = 26
    ecn: int = ECT0
    hops: int = 64
    tag: headers.Tag | None = None

    def layers(self) -> Packet:
        """Return Ethernet, an optional VLAN tag, IP and UDP as scapy layers."""
        tos = self.dscp << 2 | self.ecn
        if isinstance(ip_address(self.dst), IPv6Address):
            ip = IPv6(src=self.src, dst=self.dst, tc=tos, hlim=self.hops)
        else:
            ip = IP(src=self.src, dst=self.dst, tos=tos, ttl=self.hops, flags="DF")
        link = Ether(src=self.src_mac, dst=self.dst_mac)
        if self.tag is not None:
            link /= Dot1Q(vlan=self.tag.vlan, prio=self.tag.pcp)
        return link / ip / UDP(sport=self.entropy)


@dataclass(frozen=True, slots=True)
class RoceMessage:
    """The BTH, its extension headers, and the data. Padding, lengths and checksums are computed.

    Headers are not checked against the opcode, because some tests need inconsistent packets. ``icrc`` of four octets
    replaces the computed one.
    """

    opcode: Opcode
    destqp: int
    psn: int = 0
    ackreq: bool = False
    solicited: bool = False
    migreq: bool = True
    fecn: bool = False
    becn: bool = False
    pkey: int = 0xFFFF
    deth: headers.Deth | None = None
    feth: headers.Feth | None = None
    reth: headers.Reth | None = None
    atomiceth: headers.AtomicEth | None = None
    aeth: headers.Aeth | None = None
    origremdt: int | None = None
    immdt: int | None = None
    ieth: int | None = None
    payload: bytes = b""
    icrc: bytes | None = None


def rocev2(path: Path, message: RoceMessage) -> bytes:
    """Return the frame with ``message``: headers in wire order, padding, and ICRC."""
    packet = path.layers() / BTH(
        OpCode=message.opcode,
        DestQP=message.destqp,
        PSN=message.psn,
        A=message.ackreq,
        SE=message.solicited,
        M=message.migreq,
        FECN=message.fecn,
        BECN=message.becn,
        P_KEY=message.pkey,
        ICRC=None if message.icrc is None else int.from_bytes(message.icrc),
    )
    for header in _extensions(message):
        packet /= header
    return bytes(packet / message.payload if message.payload else packet)


def _extensions(message: RoceMessage) -> Iterator[Packet]:
    """Yield the extension headers of ``message``, in wire order."""
    if message.deth is not None:
        yield DETH(Q_Key=message.deth.qkey, SrcQP=message.deth.srcqp)
    if message.feth is not None:
        yield FETH(SEL=message.feth.sel, PLT=message.feth.plt)
    if (reth := message.reth) is not None:
        yield RETH(VA=reth.va, R_Key=reth.rkey, DMALen=reth.dmalen)
    if (atomic := message.atomiceth) is not None:
        yield AtomicETH(VA=atomic.va, R_Key=atomic.rkey, SwapDt=atomic.swapdt, CmpDt=atomic.cmpdt)
    if message.aeth is not None:
        yield AETH(Syndrome=message.aeth.syndrome.octet, MSN=message.aeth.msn)
    if message.origremdt is not None:
        yield AtomicAckETH(OrigRemDt=message.origremdt)
    if message.immdt is not None:
        yield ImmDt(ImmDt=message.immdt)
    if message.ieth is not None:
        yield IETH(R_Key=message.ieth)


def cnp(path: Path, destqp: int) -> bytes:
    """Return a congestion notification packet to ``destqp`` (annex A17.9.3): BECN set, PSN 0, 16 reserved octets."""
    return bytes(path.layers() / BTH(DestQP=destqp, M=0) / CNP())


def pfc(src_mac: str, operands: headers.PfcFrame) -> bytes:
    """Return a priority flow control frame (IEEE 802.3 annex 31D), padded to 60 bytes."""
    times = {f"time_{priority}": operands.quanta[priority] for priority in range(CLASSES)}
    return _mac_control(src_mac, PFC(priority_enable_vector=operands.vector, **times))


def pause(src_mac: str, operands: headers.PauseFrame) -> bytes:
    """Return a pause frame for the whole link (IEEE 802.3 annex 31B), padded to 60 bytes."""
    return _mac_control(src_mac, Pause(pause_time=operands.quanta))


def _mac_control(src_mac: str, operands: Packet) -> bytes:
    frame = bytes(Ether(src=src_mac, dst=MAC_CONTROL_ADDRESS) / MACControl() / operands)
    return frame.ljust(_SHORTEST, b"\0")


def vxlan(path: Path, vni: int, frame: bytes) -> bytes:
    """Return ``frame`` in VXLAN (RFC 7348) with the outer headers of ``path``. The outer IPv4 UDP checksum is 0."""
    outer = path.layers()
    if IP in outer:
        outer[UDP].chksum = 0  # RFC 7348 section 5, and what Linux sends
    return bytes(outer / VXLAN(VNI=vni) / frame)
