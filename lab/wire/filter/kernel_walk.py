"""The header walk of a kernel filter; it stores the offsets of headers in the program's memory.

It is exact for Ethernet with up to one VLAN tag, MAC control, IPv4, IPv6, UDP, RoCEv2, and VXLAN with these inside.
It is unsure about other packets that ``lab.wire.layers`` supports: more tags, other or nested tunnels, IPv6 extension
headers, first fragments, and inconsistent packets.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lab.wire import icrc
from lab.wire.filter import assembler as asm
from lab.wire.filter.assembler import Assembler, Label
from lab.wire.header_fields import (
    IP_VERSION,
    BthFields,
    EthernetFields,
    Ipv4Fields,
    Ipv6Fields,
    MacControlFields,
    PauseFields,
    PfcFields,
    UdpFields,
    VlanFields,
    VxlanFields,
)
from lab.wire.layers import RULES, Header
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE, VLAN_TYPES

_IP: Final = EthernetFields.SIZE
"""Offset of IP, or of MAC control, in a frame."""
_NEGATIVE: Final = 0x80000000
NOTHING: Final = 0xFFFFFFFF
"""Marks an empty memory slot of a field that can be 0."""


class WalkMemory(NamedTuple):
    """Memory slots for one frame: offsets from the packet's start, or zero."""

    ip: int
    version: int
    tos: int  # NOTHING without IP
    bth: int
    udp_end: int


OUTER: Final = WalkMemory(0, 1, 2, 3, 4)
INNER: Final = WalkMemory(5, 6, 7, 8, 9)
CONTROL: Final = 10
"""The opcode of MAC control, or zero."""
VNI: Final = 11
"""The VNI, or NOTHING outside VXLAN."""
_BASE: Final = 12  # start of the frame
_END: Final = 13  # end of the frame
_UDP_AT: Final = 14
_IP_END: Final = 15


class KernelWalk:
    """Writes the walk into ``assembler``; packets that it cannot judge go to ``unsure``."""

    def __init__(self, assembler: Assembler, unsure: Label) -> None:
        self._asm = assembler
        self._unsure = unsure

    def write(self, done: Label) -> None:
        """Write instructions that end at ``done``, with ``OUTER``, ``INNER``, ``CONTROL`` and ``VNI`` filled in."""
        for slot in (*OUTER, *INNER, CONTROL, VNI, _BASE):
            self._asm.add(asm.LD_CONSTANT, NOTHING if slot in {OUTER.tos, INNER.tos, VNI} else 0)
            self._asm.add(asm.STORE, slot)
        self._asm.add(asm.LD_LENGTH)
        self._asm.add(asm.STORE, _END)
        inner = Label()
        self._frame(OUTER, done, inner)
        self._asm.place(inner)
        self._frame(INNER, done, self._unsure)

    # X is the start of the frame, after its tag is skipped, or the start of the UDP header.

    def need(self, size: int, end: int = _END) -> None:
        """Continue if there are ``size`` bytes from X to the offset in slot ``end``; X never exceeds it."""
        self._asm.add(asm.LD_MEMORY, end)
        self._asm.add(asm.SUBTRACT_X)
        self._asm.jump(asm.JUMP_NOT_LESS, size, None, self._unsure)

    def _only(self, code: int, k: int) -> None:
        self._asm.jump(code, k, None, self._unsure)

    def _store_sum(self, slot: int, k: int) -> None:
        """Store X + k; A is overwritten."""
        self._asm.add(asm.X_TO_A)
        self._asm.add(asm.ADD, k)
        self._asm.add(asm.STORE, slot)

    def _frame(self, layer: WalkMemory, done: Label, tunnel: Label) -> None:
        """Walk one frame from _BASE to _END; at ``tunnel``, both are those of the frame inside VXLAN."""
        tagged, plain, ipv4, ipv6, control, udp = (Label() for _ in range(6))
        self._asm.add(asm.LDX_MEMORY, _BASE)
        self.need(EthernetFields.SIZE)
        self._asm.load(EthernetFields.ETHERTYPE)
        for tag in VLAN_TYPES:
            self._asm.jump(asm.JUMP_EQUAL, tag, tagged, None)
        self._asm.go(plain)
        self._asm.place(tagged)
        self.need(EthernetFields.SIZE + VlanFields.SIZE)
        self._asm.add(asm.X_TO_A)
        self._asm.add(asm.ADD, VlanFields.SIZE)
        self._asm.add(asm.A_TO_X)
        self._asm.load(EthernetFields.ETHERTYPE)
        for tag in VLAN_TYPES:
            self._asm.jump(asm.JUMP_EQUAL, tag, self._unsure, None)
        self._asm.place(plain)
        here = {Header.IPV4: ipv4, Header.IPV6: ipv6, Header.MAC_CONTROL: control}
        self._follow(Header.ETHERNET, here, done)
        self._mac_control(control, done)
        self._ipv6(ipv6, layer, done, udp)
        self._ipv4(ipv4, layer, done)
        self._asm.place(udp)
        self._udp(layer, done, tunnel)

    def _follow(self, header: Header, here: dict[Header, Label], done: Label) -> None:
        """Jump by the number in A to the header's label, or to ``unsure`` if only ``match`` supports it."""
        for number, following in RULES[header].follows.items():
            if following is not Header.TCP and following is not None:
                self._asm.jump(asm.JUMP_EQUAL, number, here.get(following, self._unsure), None)
        self._asm.go(done)

    def _mac_control(self, here: Label, done: Label) -> None:
        pause, pfc = Label(), Label()
        self._asm.place(here)
        self.need(_IP + MacControlFields.SIZE)
        self._asm.load(MacControlFields.OPCODE, _IP)
        self._asm.jump(asm.JUMP_EQUAL, PAUSE_OPCODE, pause, None)
        self._asm.jump(asm.JUMP_EQUAL, PFC_OPCODE, pfc, done)
        operands = ((pause, PAUSE_OPCODE, PauseFields.SIZE), (pfc, PFC_OPCODE, PfcFields.SIZE))
        for label, opcode, size in operands:
            self._asm.place(label)
            self.need(_IP + MacControlFields.SIZE + size)
            self._asm.add(asm.LD_CONSTANT, opcode)
            self._asm.add(asm.STORE, CONTROL)
            self._asm.go(done)

    def _ip(self, layer: WalkMemory, version: int, size: int) -> None:
        """Walk the fields that both IP versions share; A is overwritten."""
        self.need(_IP + size)
        self._asm.load(IP_VERSION, _IP)
        self._only(asm.JUMP_EQUAL, version)
        self._store_sum(layer.ip, _IP)
        self._asm.add(asm.LD_CONSTANT, version)
        self._asm.add(asm.STORE, layer.version)

    def _ends(self) -> None:
        """Check that IP does not exceed the frame; X is the start of UDP."""
        self._asm.add(asm.LD_MEMORY, _END)
        self._asm.add(asm.LDX_MEMORY, _IP_END)
        self._asm.add(asm.SUBTRACT_X)
        self._asm.jump(asm.JUMP_BITS, _NEGATIVE, self._unsure, None)
        self._asm.add(asm.LDX_MEMORY, _UDP_AT)

    def _ipv6(self, here: Label, layer: WalkMemory, done: Label, udp: Label) -> None:
        self._asm.place(here)
        self._ip(layer, 6, Ipv6Fields.SIZE)
        self._asm.load(Ipv6Fields.TOS, _IP)
        self._asm.add(asm.STORE, layer.tos)
        datagram = Label()
        self._asm.load(Ipv6Fields.NEXT_HEADER, _IP)
        self._follow(Header.IPV6, {Header.UDP: datagram}, done)
        self._asm.place(datagram)
        self._store_sum(_UDP_AT, _IP + Ipv6Fields.SIZE)
        self._asm.load(Ipv6Fields.LENGTH, _IP)
        self._asm.add(asm.ADD, Ipv6Fields.SIZE)
        self._from_ip(_IP_END)
        self._ends()
        self._asm.go(udp)

    def _ipv4(self, here: Label, layer: WalkMemory, done: Label) -> None:
        self._asm.place(here)
        self._ip(layer, 4, Ipv4Fields.SIZE)
        self._asm.load(Ipv4Fields.TOS, _IP)
        self._asm.add(asm.STORE, layer.tos)
        self._asm.load(Ipv4Fields.IHL, _IP)
        self._asm.add(asm.MULTIPLY, Ipv4Fields.WORD)
        self._only(asm.JUMP_NOT_LESS, Ipv4Fields.SIZE)
        self._from_ip(_UDP_AT)
        self._asm.load(Ipv4Fields.LENGTH, _IP)
        self._from_ip(_IP_END)
        self._asm.add(asm.LDX_MEMORY, _UDP_AT)
        self._asm.add(asm.SUBTRACT_X)
        self._asm.jump(asm.JUMP_BITS, _NEGATIVE, self._unsure, None)
        self._asm.add(asm.LDX_MEMORY, layer.ip)
        datagram = Label()
        self._asm.load_word(Ipv4Fields.FRAGMENT)
        self._asm.jump(asm.JUMP_BITS, Ipv4Fields.FRAGMENT_OFFSET.deciding, done, None)
        self._asm.jump(asm.JUMP_BITS, Ipv4Fields.MORE_FRAGMENTS.deciding, self._unsure, None)
        self._asm.load(Ipv4Fields.PROTOCOL)
        self._follow(Header.IPV4, {Header.UDP: datagram}, done)
        self._asm.place(datagram)
        self._ends()

    def _from_ip(self, slot: int) -> None:
        """Convert A, relative to the IP header, to an offset in the packet, and store it."""
        self._asm.add(asm.ADD_X)
        self._asm.add(asm.ADD, _IP)
        self._asm.add(asm.STORE, slot)

    def _udp(self, layer: WalkMemory, done: Label, tunnel: Label) -> None:
        """Walk UDP, whose start is in X; its length must fit into IP's."""
        roce, vxlan = Label(), Label()
        self.need(UdpFields.SIZE, _IP_END)
        self._asm.load(UdpFields.LENGTH)
        self._only(asm.JUMP_NOT_LESS, UdpFields.SIZE)
        self._asm.add(asm.ADD_X)
        self._asm.add(asm.STORE, layer.udp_end)
        self._asm.add(asm.LDX_MEMORY, _IP_END)
        self._asm.jump(asm.JUMP_GREATER_X, 0, self._unsure, None)
        self._asm.add(asm.LDX_MEMORY, _UDP_AT)
        self._asm.load(UdpFields.DPORT)
        self._follow(Header.UDP, {Header.BTH: roce, Header.VXLAN: vxlan}, done)
        self._asm.place(roce)
        self.need(UdpFields.SIZE + BthFields.SIZE + icrc.SIZE, layer.udp_end)
        self._store_sum(layer.bth, UdpFields.SIZE)
        self._asm.go(done)
        self._asm.place(vxlan)
        if layer is OUTER:
            self._vxlan(layer)
        self._asm.go(tunnel)

    def _vxlan(self, layer: WalkMemory) -> None:
        inside = UdpFields.SIZE + VxlanFields.SIZE
        self.need(inside, layer.udp_end)
        self._asm.load_word(VxlanFields.VNI_VALID, UdpFields.SIZE)
        self._only(asm.JUMP_BITS, VxlanFields.VNI_VALID.deciding)
        self._asm.load(VxlanFields.VNI, UdpFields.SIZE)
        self._asm.add(asm.STORE, VNI)
        self._asm.add(asm.LD_MEMORY, layer.udp_end)
        self._asm.add(asm.STORE, _END)
        self._store_sum(_BASE, inside)
