"""MAC control (PFC and Pause) and VXLAN as scapy layers, with the field names of IEEE 802.3 and RFC 7348.

scapy's own layers have defects. Its VXLAN sets the flag of another protocol (GPE) on packets with a payload, so Linux
drops them. Its pause times are off by two at 1 Gb/s.
"""

from __future__ import annotations

from typing import ClassVar, Final

from scapy.fields import BitField, ShortField, XByteField, XShortEnumField, XShortField
from scapy.layers.inet import UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw, bind_bottom_up, bind_layers

from lab.wire.headers import CLASSES
from lab.wire.layers import MAX_TUNNELS, VNI_VALID
from lab.wire.udp_ports import MAC_CONTROL_TYPE, PAUSE_OPCODE, PFC_OPCODE, VLAN_TYPES, VXLAN_PORT, VXLAN_PORTS

MAC_CONTROL_ADDRESS: Final = "01:80:c2:00:00:01"
"""Destination of every pause frame; bridges do not forward it (IEEE 802.3 annex 31B.1, 802.1Q table 8-1)."""


class _Operands(Packet):  # type: ignore[misc]  # scapy is untyped
    """The operands after a MAC control opcode; the rest of the frame is padding up to 60 bytes."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return all remaining bytes as padding; there is no payload."""
        return b"", s


class MACControl(Packet):  # type: ignore[misc]
    """The opcode of a MAC control frame (IEEE 802.3 clause 31.4)."""

    name = "MAC control"
    fields_desc: ClassVar = [XShortEnumField("opcode", PFC_OPCODE, {PAUSE_OPCODE: "PAUSE", PFC_OPCODE: "PFC"})]


class Pause(_Operands):
    """The pause time of the whole link, in quanta of 512 bit times (annex 31B)."""

    name = "Pause"
    fields_desc: ClassVar = [ShortField("pause_time", 0)]


class PFC(_Operands):
    """The classes to pause, and the quanta of each (annex 31D)."""

    name = "PFC"
    fields_desc: ClassVar = [
        XShortField("priority_enable_vector", 0),
        *(ShortField(f"time_{priority}", 0) for priority in range(CLASSES)),
    ]


class VXLAN(Packet):  # type: ignore[misc]
    """The tunnel header of RFC 7348 section 5; its payload is an Ethernet frame."""

    name = "VXLAN"
    fields_desc: ClassVar = [
        XByteField("Flags", VNI_VALID),
        BitField("Reserved1", 0, 24),
        BitField("VNI", 0, 24),
        XByteField("Reserved2", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:  # noqa: ARG002 - it is always a frame
        """Return Ether, or Raw if tunnels nest too deep or the VNI is not valid, as in ``lab.wire.frame``."""
        depth, below = 0, self.underlayer
        while below is not None:
            depth += isinstance(below, VXLAN)
            below = below.underlayer
        layer: type[Packet] = Ether if depth < MAX_TUNNELS and self.Flags & VNI_VALID else Raw
        return layer


bind_layers(Ether, MACControl, type=MAC_CONTROL_TYPE)
bind_layers(MACControl, Pause, opcode=PAUSE_OPCODE)
bind_layers(MACControl, PFC, opcode=PFC_OPCODE)
bind_layers(UDP, VXLAN, dport=VXLAN_PORT)
for _port in VXLAN_PORTS[1:]:
    bind_bottom_up(UDP, VXLAN, dport=_port)
for _type in VLAN_TYPES[2:]:
    bind_bottom_up(Ether, Dot1Q, type=_type)
