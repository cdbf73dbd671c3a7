"""The table of all headers that are decoded, from Ethernet to RoCEv2, and of what may follow each.

Two engines use it: ``lab.wire.walk`` for single frames, and ``lab.analysis.decode.header_walk_columns`` for all
frames of a batch. Named fields are in ``lab.wire.header_fields``.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.wire import udp_ports
from lab.wire.header_fields import (
    IP_VERSION,
    Bits,
    BthFields,
    EthernetFields,
    GeneveFields,
    GreFields,
    Ipv4Fields,
    Ipv6Fields,
    Ipv6FragmentFields,
    Ipv6RoutingFields,
    MacControlFields,
    MplsFields,
    UdpFields,
    VlanFields,
    VxlanFields,
)
from lab.wire.udp_ports import (
    BRIDGED,
    ERSPAN_2_TYPE,
    ERSPAN_3_TYPE,
    ETHERTYPES,
    IP_PROTOCOLS,
    IPV4_TYPE,
    IPV6_TYPE,
    MAC_CONTROL_TYPE,
    MPLS_TYPES,
    ROCEV1_TYPE,
    SPECTRUM_MIRROR_TYPE,
    VLAN_TYPES,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TUNNELS: Final = 4
"""Nested frames that are decoded. No fabric nests deeper; the limit bounds the cost of crafted packets."""
MAX_HEADERS: Final = 32
"""Headers of a packet that are decoded, for the same reason."""
VNI_VALID: Final = VxlanFields.VNI_VALID.deciding
"""The I flag of VXLAN, as a bit of its flags."""


_ETHERTYPE: Final = "ethertype {:#06x}"
_LEAST_TYPE: Final = 0x600
"""A smaller number in the EtherType field is the length of an IEEE 802.2 frame."""


class WalkStop(IntEnum):
    """The reason why a walk stopped.

    ``SHORT`` is none: a mirror truncated the packet without adjusting its length, and all bytes present are decoded.
    """

    NONE = 0
    CUT = 1
    ROOM = 2
    DEEP = 3
    IPV4 = 4
    IPV6 = 5
    UDP_LENGTH = 6
    TUNNEL = 7
    SHORT = 8
    BTH = 9
    EXTENSION = 10
    PADDING = 11


class Header(IntEnum):
    """The headers. ``MPLS_PAYLOAD``, ``PSEUDOWIRE`` and ``ANY_IP`` have no bytes: they only inspect what follows."""

    ETHERNET = 0
    VLAN = 1
    MAC_CONTROL = 2
    MPLS = 3
    MPLS_PAYLOAD = 4
    PSEUDOWIRE = 5
    CONTROL_WORD = 6
    IPV4 = 7
    IPV6 = 8
    OPTIONS = 9
    ROUTING = 10
    FRAGMENT = 11
    AUTHENTICATION = 12
    GRE = 13
    ERSPAN_2 = 14
    ERSPAN_3 = 15
    ANY_IP = 16
    TCP = 17
    UDP = 18
    VXLAN = 19
    GENEVE = 20
    GRH = 21
    BTH = 22
    BTH_V1 = 23
    SPECTRUM_MIRROR = 24


class Rule(NamedTuple):
    """The layout of a header, of at least ``size`` bytes.

    * Size: ``base`` bytes (``size`` if None), plus, for each of ``extra``, a field times a factor.
    * ``next``: the field that identifies the next header in ``follows``; ``otherwise`` is the default.
    * ``total``: the field with the length of the header and its payload, from the header's start; ``beyond`` is
      added.
    * ``open_ended``: a total of 0 means the rest of the frame, and a total beyond the frame means that a mirror
      truncated it. ``jumbo``: only the former, as in datagrams of more than 64 KB.
    * ``good``: fields and their bounds. Out of bounds, the header is damaged; if ``fault`` is NONE, it is only not
      decoded.
    * ``offset``, ``more``: the fields of fragments: zero in the first one, and zero in the last one.
    """

    name: str
    size: int
    next: Bits | None = None
    follows: Mapping[int, Header | None] = MappingProxyType({})
    otherwise: Header | None = None
    base: int | None = None
    extra: tuple[tuple[Bits, int], ...] = ()
    total: Bits | None = None
    beyond: int = 0
    open_ended: bool = False
    jumbo: bool = False
    good: tuple[tuple[Bits, int, int], ...] = ()
    fault: WalkStop = WalkStop.TUNNEL
    offset: Bits | None = None
    more: Bits | None = None
    names: Mapping[int, str] = MappingProxyType({})
    unnamed: str = ""

    def other(self, number: int) -> str:
        """Return the name of a protocol after this header that is not decoded."""
        if self.unnamed == _ETHERTYPE and number < _LEAST_TYPE:
            return "LLC"
        return self.names.get(number) or self.unnamed.format(number) or self.name


IP_HEADERS: Final = (Header.IPV4, Header.IPV6, Header.GRH)
"""Headers with IP addresses. The second one of a packet is inside a tunnel."""
VNI_HEADERS: Final = (Header.VXLAN, Header.GENEVE)
"""Headers with a VNI, in the upper 24 bits of their second word."""
BTH_HEADERS: Final = (Header.BTH, Header.BTH_V1)

_BY_TYPE: Final = {
    **dict.fromkeys(VLAN_TYPES, Header.VLAN),
    **dict.fromkeys(MPLS_TYPES, Header.MPLS),
    IPV4_TYPE: Header.IPV4,
    IPV6_TYPE: Header.IPV6,
    MAC_CONTROL_TYPE: Header.MAC_CONTROL,
    ROCEV1_TYPE: Header.GRH,
}
_BY_PROTOCOL: Final = {
    udp_ports.IPIP: Header.IPV4,
    udp_ports.IPV6_IN_IP: Header.IPV6,
    udp_ports.TCP: Header.TCP,
    udp_ports.UDP: Header.UDP,
    udp_ports.GRE: Header.GRE,
    udp_ports.AUTHENTICATION: Header.AUTHENTICATION,
    udp_ports.MPLS_IN_IP: Header.MPLS,
    udp_ports.ETHERNET: Header.ETHERNET,
}
_BY_NEXT_HEADER: Final = _BY_PROTOCOL | {
    udp_ports.HOP_BY_HOP: Header.OPTIONS,
    udp_ports.DESTINATION_OPTIONS: Header.OPTIONS,
    udp_ports.ROUTING: Header.ROUTING,
    udp_ports.FRAGMENT: Header.FRAGMENT,
}
_BY_PORT: Final = {
    udp_ports.ROCEV2_PORT: Header.BTH,
    **dict.fromkeys(udp_ports.VXLAN_PORTS, Header.VXLAN),
    udp_ports.GENEVE_PORT: Header.GENEVE,
    udp_ports.MPLS_PORT: Header.MPLS,
}
_BY_GENEVE: Final = _BY_TYPE | {BRIDGED: Header.ETHERNET}
_MIRRORS: Final = {
    ERSPAN_2_TYPE: Header.ERSPAN_2,
    ERSPAN_3_TYPE: Header.ERSPAN_3,
    SPECTRUM_MIRROR_TYPE: Header.SPECTRUM_MIRROR,
}
_SEQUENCED: Final = GreFields.SEQUENCE_PRESENT.deciding << 24
"""GRE's S bit, as part of ``next``: ERSPAN type I has the type of II without this bit, and no header of its own."""
_BY_GRE: Final = {
    key: header for number, header in (_BY_GENEVE | _MIRRORS).items() for key in (number, number | _SEQUENCED)
} | {ERSPAN_2_TYPE: Header.ETHERNET}
_BY_VERSION: Final = {4: Header.IPV4, 6: Header.IPV6}

_PROTOCOL: Final = "IP protocol {}"
_OPTIONS: Final = Rule(
    "IPv6 options", Ipv6RoutingFields.SIZE, Ipv6RoutingFields.NEXT_HEADER, _BY_NEXT_HEADER,
    base=Ipv6RoutingFields.SIZE, extra=((Ipv6RoutingFields.LENGTH, 8),), names=IP_PROTOCOLS, unnamed=_PROTOCOL,
)  # fmt: skip

RULES: Final[dict[Header, Rule]] = {
    Header.ETHERNET: Rule(
        "Ethernet", EthernetFields.SIZE, EthernetFields.ETHERTYPE, _BY_TYPE, names=ETHERTYPES, unnamed=_ETHERTYPE
    ),
    Header.VLAN: Rule(
        "VLAN tag", VlanFields.SIZE, VlanFields.ETHERTYPE, _BY_TYPE, names=ETHERTYPES, unnamed=_ETHERTYPE
    ),
    Header.MAC_CONTROL: Rule("MAC control", MacControlFields.SIZE),
    # RFC 3032 section 2.1. After the bottom of the stack, the next protocol is not given (RFC 4928 section 3).
    Header.MPLS: Rule("MPLS", MplsFields.SIZE, MplsFields.BOTTOM, {0: Header.MPLS}, Header.MPLS_PAYLOAD),
    Header.MPLS_PAYLOAD: Rule("MPLS", 1, IP_VERSION, _BY_VERSION, Header.PSEUDOWIRE, base=0),
    # RFC 4385: a control word begins with zeros, an associated channel with 0001; a MAC address rarely does.
    Header.PSEUDOWIRE: Rule(
        "MPLS pseudowire", 2, Bits(0, 2, 6), {0x0000 >> 6: Header.CONTROL_WORD, 0x1000 >> 6: None}, Header.ETHERNET,
        base=0, names={0x1000 >> 6: "MPLS associated channel"},
    ),
    Header.CONTROL_WORD: Rule("MPLS pseudowire", 4, Bits(0, 1), {}, Header.ETHERNET),
    Header.IPV4: Rule(
        "IPv4", Ipv4Fields.SIZE, Ipv4Fields.PROTOCOL, _BY_PROTOCOL, base=0,
        extra=((Ipv4Fields.IHL, Ipv4Fields.WORD),), total=Ipv4Fields.LENGTH, open_ended=True,
        good=((Ipv4Fields.VERSION_IHL, Ipv4Fields.PLAIN, 0x4F),), fault=WalkStop.IPV4,
        offset=Ipv4Fields.FRAGMENT_OFFSET, more=Ipv4Fields.MORE_FRAGMENTS,
        names=IP_PROTOCOLS, unnamed=_PROTOCOL,
    ),
    Header.IPV6: Rule(
        "IPv6", Ipv6Fields.SIZE, Ipv6Fields.NEXT_HEADER, _BY_NEXT_HEADER, total=Ipv6Fields.LENGTH,
        beyond=Ipv6Fields.SIZE, open_ended=True,
        good=((IP_VERSION, 6, 6),), fault=WalkStop.IPV6, names=IP_PROTOCOLS, unnamed=_PROTOCOL,
    ),
    Header.OPTIONS: _OPTIONS,
    Header.ROUTING: _OPTIONS._replace(name="IPv6 routing"),
    Header.FRAGMENT: Rule(
        "IPv6 fragment", Ipv6FragmentFields.SIZE, Ipv6FragmentFields.NEXT_HEADER, _BY_NEXT_HEADER,
        offset=Ipv6FragmentFields.FRAGMENT_OFFSET, more=Ipv6FragmentFields.MORE_FRAGMENTS,
        names=IP_PROTOCOLS, unnamed=_PROTOCOL,
    ),
    Header.AUTHENTICATION: _OPTIONS._replace(name="AH", extra=((Ipv6RoutingFields.LENGTH, 4),)),
    # RFC 2784 and 2890: checksum, key and sequence number exist if their bits are set; version 0 without routing
    Header.GRE: Rule(
        "GRE", GreFields.SIZE, Bits(0, 4, 0, _SEQUENCED | GreFields.PROTOCOL.most), _BY_GRE,
        extra=((GreFields.CHECKSUM_PRESENT, 4), (GreFields.KEY_PRESENT, 4), (GreFields.SEQUENCE_PRESENT, 4)),
        good=((Bits(0, 2, 0, 0x4007), 0, 0),), fault=WalkStop.NONE,
        names=ETHERTYPES | {number | _SEQUENCED: name for number, name in ETHERTYPES.items()},
    ),
    # draft-foschiano-erspan sections 4.2 and 4.3
    Header.ERSPAN_2: Rule("ERSPAN", 8, Bits(0, 1), {}, Header.ETHERNET),
    Header.ERSPAN_3: Rule(
        "ERSPAN", 12, Bits(10, 2, 10, 31), {0: Header.ETHERNET, 2: Header.ANY_IP}, extra=((Bits(11, 1, 0, 1), 8),)
    ),
    Header.SPECTRUM_MIRROR: Rule("Spectrum mirror", 22, Bits(0, 1), {}, Header.ETHERNET),
    Header.ANY_IP: Rule("IP", 1, IP_VERSION, _BY_VERSION, base=0),
    Header.TCP: Rule("TCP", UdpFields.DPORT.end),
    # Length 0: RFC 2675 section 4, and BIG TCP in tunnels on Linux
    Header.UDP: Rule(
        "UDP", UdpFields.SIZE, UdpFields.DPORT, _BY_PORT, total=UdpFields.LENGTH, jumbo=True,
        fault=WalkStop.UDP_LENGTH,
    ),
    Header.VXLAN: Rule(
        "VXLAN", VxlanFields.SIZE, VxlanFields.FLAGS, {}, Header.ETHERNET, good=((VxlanFields.VNI_VALID, 1, 1),)
    ),
    # RFC 8926 section 3.4
    Header.GENEVE: Rule(
        "GENEVE", GeneveFields.SIZE, GeneveFields.PROTOCOL, _BY_GENEVE, extra=((GeneveFields.OPTIONS, 4),),
        good=((GeneveFields.VERSION, 0, 0),),
        fault=WalkStop.NONE, names=ETHERTYPES, unnamed=_ETHERTYPE,
    ),
    # IBA vol. 1 section 8.3 and annex A16
    Header.GRH: Rule(
        "RoCEv1", Ipv6Fields.SIZE, Ipv6Fields.NEXT_HEADER, {0x1B: Header.BTH_V1}, total=Ipv6Fields.LENGTH,
        beyond=Ipv6Fields.SIZE, open_ended=True,
        good=((IP_VERSION, 6, 6),),
    ),
    Header.BTH: Rule("RoCEv2", BthFields.SIZE),
    Header.BTH_V1: Rule("RoCEv1", BthFields.SIZE),
}  # fmt: skip
ETHERNET_SIZE: Final = RULES[Header.ETHERNET].size
"""Bytes of an Ethernet header without tags."""
