"""RoCEv2 as scapy layers, with the field names of the InfiniBand specification.

This module replaces scapy's own ``contrib.roce``. That module uses other field names, lacks RETH, ImmDt and opcodes
with Invalidate, and has the AETH only in acknowledgements. Its ICRC is computed from a rebuilt copy of the packet, so
it cannot verify captured bytes. Importing both would bind UDP port 4791 twice; ``lab`` binds it only here.

Padding and ICRC are computed when a packet is built::

    Ether() / IP(dst="10.0.0.2") / UDP(sport=0xC000) / BTH(OpCode=Opcode.RC_SEND_ONLY, DestQP=17) / b"hello"
"""

from __future__ import annotations

from typing import ClassVar, Final

from scapy.fields import (
    BitField,
    ByteEnumField,
    FCSField,
    IntField,
    XBitField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_layers, bind_top_down

from lab.wire import icrc
from lab.wire.header_fields import BthFields, UdpFields
from lab.wire.opcodes import OPCODE_NAMES, Extension, Opcode, extensions
from lab.wire.udp_ports import ROCEV2_PORT


class _Transport(Packet):  # type: ignore[misc]  # scapy is untyped
    """A header whose next header depends on the BTH's opcode."""

    extension: ClassVar[Extension | None] = None

    def guess_payload_class(self, payload: bytes) -> type[Packet]:  # noqa: ARG002 - the opcode decides, not the bytes
        """Return the next header of the opcode, or Raw for data."""
        bth = self if isinstance(self, BTH) else self.underlayer
        while bth is not None and not isinstance(bth, BTH):
            bth = bth.underlayer
        order = extensions(bth.OpCode) if bth is not None else ()
        if self.extension in order:
            order = order[order.index(self.extension) + 1 :]
        layer: type[Packet] = _LAYERS[order[0]] if order else Raw
        return layer


class BTH(_Transport):
    """Base transport header (IBA vol. 1 section 9.2); FECN and BECN from annex A10.

    ``PadCnt`` None pads the payload to a multiple of four octets. ``ICRC`` None computes it; it is zero without IP
    and UDP below.
    """

    name = "BTH"
    fields_desc: ClassVar = [
        ByteEnumField("OpCode", Opcode.RC_SEND_ONLY, OPCODE_NAMES),
        BitField("SE", 0, 1),
        BitField("M", 1, 1),
        BitField("PadCnt", None, 2),
        BitField("TVer", 0, 4),
        XShortField("P_KEY", 0xFFFF),
        BitField("FECN", 0, 1),
        BitField("BECN", 0, 1),
        BitField("Reserved6", 0, 6),
        XBitField("DestQP", 0, 24),
        BitField("A", 0, 1),
        BitField("Reserved7", 0, 7),
        BitField("PSN", 0, 24),
        FCSField("ICRC", None, fmt="!I"),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Pad the packet, then add the ICRC. Values that were set explicitly are kept."""
        body, seal = pay[: -icrc.SIZE], pay[-icrc.SIZE :]
        if self.PadCnt is None:
            padding = -len(body) % 4
            pkt = pkt[:1] + bytes([pkt[1] | padding << BthFields.PAD.shift]) + pkt[2:]
            body += bytes(padding)
        if self.ICRC is None:
            seal = self._seal(pkt + body)
        return pkt + body + seal

    def _seal(self, transport: bytes) -> bytes:
        udp = self.underlayer
        ip = udp.underlayer if isinstance(udp, UDP) else None
        if not isinstance(ip, IP | IPv6):
            return bytes(icrc.SIZE)
        size = UdpFields.SIZE + len(transport) + icrc.SIZE
        header = _ip_header(ip, size)
        ports = UdpFields.pack(sport=udp.sport, dport=udp.dport, length=size if udp.len is None else udp.len)
        return icrc.compute(header + ports + transport, len(header))


def _ip_header(ip: Packet, size: int) -> bytes:
    """Return the octets of an IP header with ``size`` bytes of payload."""
    header = ip.copy()
    header.remove_payload()
    if isinstance(ip, IPv6):
        header.nh = ip.nh
        header.plen = size if ip.plen is None else ip.plen
        return bytes(header)
    header.proto = ip.proto
    if ip.len is None:
        header.len = len(bytes(header)) + size
    return bytes(header)


class FETH(_Transport):
    """Flush extended transport header: the extent and the guarantee of a flush (annex A19)."""

    name = "FETH"
    extension = Extension.FETH
    fields_desc: ClassVar = [BitField("Reserved26", 0, 26), BitField("SEL", 0, 2), XBitField("PLT", 0, 4)]


class RETH(_Transport):
    """RDMA extended transport header: the target of a WRITE, READ or FLUSH (section 9.3.3)."""

    name = "RETH"
    extension = Extension.RETH
    fields_desc: ClassVar = [XLongField("VA", 0), XIntField("R_Key", 0), IntField("DMALen", 0)]


class AETH(_Transport):
    """Acknowledge extended transport header (section 9.3.5); ``lab.wire.syndrome`` decodes the syndrome."""

    name = "AETH"
    extension = Extension.AETH
    fields_desc: ClassVar = [XByteField("Syndrome", 0x1F), BitField("MSN", 0, 24)]


class DETH(_Transport):
    """Datagram extended transport header: the sender's QP and the queue key (section 9.3.2)."""

    name = "DETH"
    extension = Extension.DETH
    fields_desc: ClassVar = [XIntField("Q_Key", 0), BitField("Reserved8", 0, 8), XBitField("SrcQP", 0, 24)]


class AtomicETH(_Transport):
    """Atomic extended transport header: the eight bytes to swap or add, and to compare (section 9.3.4)."""

    name = "AtomicETH"
    extension = Extension.ATOMIC_ETH
    fields_desc: ClassVar = [
        XLongField("VA", 0),
        XIntField("R_Key", 0),
        XLongField("SwapDt", 0),
        XLongField("CmpDt", 0),
    ]


class AtomicAckETH(_Transport):
    """Atomic acknowledge extended transport header: the original value (section 9.3)."""

    name = "AtomicAckETH"
    extension = Extension.ATOMIC_ACK_ETH
    fields_desc: ClassVar = [XLongField("OrigRemDt", 0)]


class IETH(_Transport):
    """Invalidate extended transport header: the key that the receiver revokes (section 9.3)."""

    name = "IETH"
    extension = Extension.IETH
    fields_desc: ClassVar = [XIntField("R_Key", 0)]


class XRCETH(_Transport):
    """XRC extended transport header: the shared receive queue of a request (annex A14)."""

    name = "XRCETH"
    extension = Extension.XRCETH
    fields_desc: ClassVar = [BitField("Reserved8", 0, 8), XBitField("XRCSRQ", 0, 24)]


class RDETH(_Transport):
    """Reliable datagram extended transport header: the end-to-end context that orders PSNs (section 9.3.1)."""

    name = "RDETH"
    extension = Extension.RDETH
    fields_desc: ClassVar = [BitField("Reserved8", 0, 8), XBitField("EEContext", 0, 24)]


class ImmDt(_Transport):
    """Immediate data, passed to the receiver with the completion (section 9.3.6)."""

    name = "ImmDt"
    extension = Extension.IMMDT
    fields_desc: ClassVar = [XIntField("ImmDt", 0)]


class CNP(_Transport):
    """The sixteen reserved octets of a congestion notification packet (annex A17.9.3)."""

    name = "CNP"
    extension = Extension.CNP_RESERVED
    fields_desc: ClassVar = [XBitField("Reserved", 0, 128)]


_ALL: Final = (DETH, FETH, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH, CNP, XRCETH, RDETH)
_LAYERS: Final[dict[Extension | None, type[_Transport]]] = {layer.extension: layer for layer in _ALL}

bind_layers(UDP, BTH, dport=ROCEV2_PORT)
bind_top_down(BTH, CNP, OpCode=Opcode.CNP, BECN=1)
