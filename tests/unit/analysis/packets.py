"""Packets of a conversation between two hosts, by opcode and PSN, put together from octets."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from ipaddress import ip_address

from lab.wire import icrc
from lab.wire.opcodes import Opcode


@dataclass(frozen=True)
class Path:
    """The headers below RoCEv2."""

    src: str = "10.0.0.1"
    dst: str = "10.0.0.2"
    entropy: int = 0xC001
    ecn: int = 2
    hops: int = 64

    def wrap(self, body: bytes) -> bytes:
        """Ethernet, IP, UDP and the ICRC around a transport packet."""
        src, dst = ip_address(self.src).packed, ip_address(self.dst).packed
        size = 8 + len(body) + icrc.SIZE
        udp = struct.pack("!HHHH", self.entropy, 4791, size, 0)
        if len(src) == 4:
            kind, tos = 0x0800, 26 << 2 | self.ecn
            ip = struct.pack("!BBHHHBBH", 0x45, tos, 20 + size, 0, 0x4000, self.hops, 17, 0) + src + dst
        else:
            kind = 0x86DD
            ip = struct.pack("!IHBB", 6 << 28 | (26 << 2 | self.ecn) << 20, size, 17, self.hops) + src + dst
        packet = ip + udp + body
        macs = bytes.fromhex("020000000002020000000001")
        return macs + struct.pack("!H", kind) + packet + icrc.compute(packet, len(ip))


THERE = Path()
BACK = Path("10.0.0.2", "10.0.0.1", 0xC002)
THERE6 = Path("2001:db8::1", "2001:db8::2")
MARKED = replace(THERE, ecn=3)
QP1, QP2 = 0x11, 0x22
"""The requester's own queue pair, which answers go to; and the responder's, which requests go to."""


def rocev2(
    path: Path, opcode: Opcode, qp: int, psn: int, extension: bytes = b"", *, ackreq: bool = False, size: int = 0
) -> bytes:
    """Any packet: BTH, what follows it, and ``size`` bytes of payload, padded."""
    pad = -size & 3
    bth = struct.pack("!BBHII", opcode, 0x40 | pad << 4, 0xFFFF, qp, ackreq << 31 | psn & 0xFFFFFF)
    return path.wrap(bth + extension + bytes(size + pad))


def _reth(size: int) -> bytes:
    return struct.pack("!QII", 0x7000, 0x99, size)


def _aeth(syndrome: int) -> bytes:
    return struct.pack("!I", syndrome << 24 | 1)


def send(psn: int, size: int = 100, *, path: Path = THERE, qp: int = QP2, ackreq: bool = True) -> bytes:
    """A SEND of one packet."""
    return rocev2(path, Opcode.RC_SEND_ONLY, qp, psn, ackreq=ackreq, size=size)


def write(psn: int, packets: int, *, mtu: int = 1024, path: Path = THERE, qp: int = QP2) -> list[bytes]:
    """An RDMA WRITE of full packets."""
    if packets == 1:
        return [rocev2(path, Opcode.RC_RDMA_WRITE_ONLY, qp, psn, _reth(mtu), ackreq=True, size=mtu)]
    codes = [Opcode.RC_RDMA_WRITE_FIRST, *[Opcode.RC_RDMA_WRITE_MIDDLE] * (packets - 2), Opcode.RC_RDMA_WRITE_LAST]
    return [
        rocev2(
            path, code, qp, psn + index, b"" if index else _reth(packets * mtu), ackreq=index == packets - 1, size=mtu
        )
        for index, code in enumerate(codes)
    ]


def read(psn: int, size: int) -> bytes:
    """An RDMA READ request."""
    return rocev2(THERE, Opcode.RC_RDMA_READ_REQUEST, QP2, psn, _reth(size), ackreq=True)


def responses(psn: int, packets: int, mtu: int = 1024) -> list[bytes]:
    """The packets that answer a READ."""
    middle = Opcode.RC_RDMA_READ_RESPONSE_MIDDLE
    codes = [Opcode.RC_RDMA_READ_RESPONSE_FIRST, *[middle] * (packets - 2), Opcode.RC_RDMA_READ_RESPONSE_LAST]
    return [
        rocev2(BACK, code, QP1, psn + index, b"" if code is middle else _aeth(31), size=mtu)
        for index, code in enumerate(codes)
    ]


def response(psn: int, size: int = 512) -> bytes:
    """The answer to a READ that fits into one packet."""
    return rocev2(BACK, Opcode.RC_RDMA_READ_RESPONSE_ONLY, QP1, psn, _aeth(31), size=size)


def atomic_write(psn: int) -> bytes:
    """An ATOMIC WRITE, which is always of eight bytes (IBA vol. 1 annex A19)."""
    return rocev2(THERE, Opcode.RC_ATOMIC_WRITE, QP2, psn, _reth(8), ackreq=True, size=8)


def flush(psn: int, size: int) -> bytes:
    """A FLUSH of ``size`` bytes: visible to all (annex A19)."""
    return rocev2(THERE, Opcode.RC_FLUSH, QP2, psn, struct.pack("!I", 1) + _reth(size), ackreq=True)


def placed(psn: int) -> bytes:
    """What answers both: a READ response without data."""
    return rocev2(BACK, Opcode.RC_RDMA_READ_RESPONSE_ONLY, QP1, psn, _aeth(31))


def ack(psn: int, syndrome: int = 31, *, qp: int = QP1, path: Path = BACK) -> bytes:
    """An acknowledgement: ACK, or by syndrome a NAK."""
    return rocev2(path, Opcode.RC_ACKNOWLEDGE, qp, psn, _aeth(syndrome))


def congestion(path: Path = BACK) -> bytes:
    """A CNP to the requester (annex A17.9.3)."""
    bth = struct.pack("!BBHII", Opcode.CNP, 0, 0xFFFF, 0x40000000 | QP1, 0)
    return path.wrap(bth + bytes(16))


def management(path: Path, attribute: int, body: bytes, transaction: int = 5) -> bytes:
    """A datagram of the communication manager to QP 1 (IBA vol. 1 sections 13.4.3 and 12.6)."""
    mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0) + body
    deth = struct.pack("!II", 0x80010000, 1)
    bth = struct.pack("!BBHII", Opcode.UD_SEND_ONLY, 0x40, 0xFFFF, 1, 9)
    return path.wrap(bth + deth + mad.ljust(256, b"\0"))


def request_connection(comm_id: int, qpn: int, psn: int, path: Path = THERE, transaction: int = 5) -> bytes:
    """A REQ of the end that has ``qpn`` and starts at ``psn``."""
    body = struct.pack("!I28xII4xI", comm_id, qpn << 8, 0, psn << 8)
    return management(path, 0x10, body, transaction)


def accept_connection(comm_id: int, asked: int, qpn: int, psn: int, path: Path = BACK) -> bytes:
    """The REP that answers the REQ with communication ID ``asked``."""
    body = struct.pack("!IIIIII", comm_id, asked, 0, qpn << 8, 0, psn << 8)
    return management(path, 0x13, body)


def reject_connection(reason: int, asked: int = 5, path: Path = BACK, transaction: int = 5) -> bytes:
    """The REJ that answers the REQ with communication ID ``asked`` (IBA vol. 1 section 12.6.7)."""
    return management(path, 0x12, struct.pack("!IIBBH", 0, asked, 0, 0, reason), transaction)


def pause(quanta: dict[int, int]) -> bytes:
    """A PFC frame (IEEE 802.1Q clause 36): quanta by class."""
    vector = sum(1 << cls for cls in quanta)
    times = struct.pack("!8H", *(quanta.get(cls, 0) for cls in range(8)))
    head = bytes.fromhex("0180c2000001020000000009") + struct.pack("!HHH", 0x8808, 0x0101, vector)
    return (head + times).ljust(60, b"\0")


def tagged(frame: bytes, vlan: int = 7) -> bytes:
    """The frame with an IEEE 802.1Q tag."""
    return frame[:12] + struct.pack("!HH", 0x8100, 3 << 13 | vlan) + frame[12:]


def vxlan(frame: bytes, vni: int = 10, ecn: int = 2) -> bytes:
    """The frame in VXLAN (RFC 7348), between two switches."""
    udp = struct.pack("!HHHH", 50000, 4789, 16 + len(frame), 0) + struct.pack("!BxxxI", 8, vni << 8)
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, ecn, 20 + len(udp) + len(frame), 0, 0, 63, 17, 0, b"\x0a\x01\0\1", b"\x0a\x01\0\2"
    )
    return bytes.fromhex("0200000000aa0200000000bb0800") + ip + udp + frame
