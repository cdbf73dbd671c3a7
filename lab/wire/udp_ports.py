"""Assigned numbers: EtherTypes, IP protocols and UDP ports, and names of protocols not decoded."""

from __future__ import annotations

from typing import Final

VLAN_TYPES: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
"""EtherTypes of VLAN tags: customer and provider tags (IEEE 802.1Q table 9-1), and their predecessors."""
IPV4_TYPE: Final = 0x0800
IPV6_TYPE: Final = 0x86DD
MAC_CONTROL_TYPE: Final = 0x8808
"""EtherType of MAC control (IEEE 802.3 clause 31)."""
PAUSE_OPCODE: Final = 0x0001
PFC_OPCODE: Final = 0x0101
MPLS_TYPES: Final = (0x8847, 0x8848)
"""RFC 5332: with downstream-assigned or upstream-assigned labels."""
ROCEV1_TYPE: Final = 0x8915
"""RoCEv1 (IBA vol. 1 annex A16): InfiniBand's network header on Ethernet, which routers do not forward."""
BRIDGED: Final = 0x6558
"""An Ethernet frame in GRE or GENEVE (RFC 7637 section 3.2); SONiC can be configured to use it for mirrors."""
ERSPAN_2_TYPE: Final = 0x88BE
ERSPAN_3_TYPE: Final = 0x22EB
SPECTRUM_MIRROR_TYPE: Final = 0x8949
"""SONiC's mirror type on Spectrum (sonic-swss, mirrororch.cpp): a header of the chip, and the frame."""
ETHERTYPES: Final = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8809: "LACP",
    0x8863: "PPPoE discovery",
    0x8864: "PPPoE",
    0x888E: "EAPOL",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88F7: "PTP",
    0x8906: "FCoE",
    0x8914: "FIP",
    0x894F: "NSH",
}
"""Names of EtherTypes that are not decoded."""

HOP_BY_HOP: Final = 0
IPIP: Final = 4
TCP: Final = 6
UDP: Final = 17
IPV6_IN_IP: Final = 41
ROUTING: Final = 43
FRAGMENT: Final = 44
GRE: Final = 47
AUTHENTICATION: Final = 51
DESTINATION_OPTIONS: Final = 60
MPLS_IN_IP: Final = 137
ETHERNET: Final = 143
"""A frame directly in IPv6, as in SRv6 (RFC 8986 section 4.9)."""
IP_PROTOCOLS: Final = {
    1: "ICMP",
    2: "IGMP",
    50: "ESP",
    58: "ICMPv6",
    59: "IPv6 without payload",
    88: "EIGRP",
    89: "OSPF",
    97: "EtherIP",
    103: "PIM",
    112: "VRRP",
    115: "L2TP",
    132: "SCTP",
}
"""Names of IP protocols that are not decoded."""

ROCEV2_PORT: Final = 4791
"""UDP destination port of RoCEv2 (IBA vol. 1 annex A17.3.2.2)."""
FIRST_SOURCE_PORT: Final = 0xC000
"""The lowest UDP source port that Linux uses for RoCEv2, of 14 bits in all (include/rdma/ib_verbs.h)."""
VXLAN_PORT: Final = 4789
"""UDP destination port of VXLAN (RFC 7348 section 5)."""
VXLAN_PORTS: Final = (VXLAN_PORT, 8472)
"""And Linux's port from before the assignment, which flannel and Cilium still use."""
GENEVE_PORT: Final = 6081
"""RFC 8926 section 3.3."""
MPLS_PORT: Final = 6635
"""RFC 7510 section 3."""


def source_port(one: int, other: int) -> int:
    """Return the UDP source port that Linux uses in both directions of a connection of these two QPs.

    mlx5, irdma, hns and rxe use it if the program sets no flow label (``rdma_get_udp_sport``,
    include/rdma/ib_verbs.h). It is the product of the QPNs, folded to 20 bits and then to 14.
    """
    product = one * other
    product ^= product >> 20
    product ^= product >> 40
    return labelled_source_port(product)


def labelled_source_port(flow_label: int) -> int:
    """Return the UDP source port of a QP whose program sets a flow label: its 20 bits, folded to 14.

    It does not depend on the QPNs (``rdma_flow_label_to_udp_sport``, include/rdma/ib_verbs.h).
    """
    label = flow_label & 0xFFFFF
    return FIRST_SOURCE_PORT | (label & 0x3FFF) ^ (label >> 14)
