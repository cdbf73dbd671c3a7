"""Tenants and networks as they will be built: every host's end resolved, every rule checked.

A network is a broadcast domain: a VLAN at its leaves and a VNI between them (RFC 7348, RFC 8365). A tenant is a VRF
on every leaf that has one of its networks. With an L3VNI, its leaves route between them (symmetric IRB, RFC 9135
section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from lab.model.topology import Endpoint

Address: TypeAlias = IPv4Address | IPv6Address
Subnet: TypeAlias = IPv4Network | IPv6Network

VLAN_RANGE: Final = (1, 4094)
"""VLAN identifiers that IEEE 802.1Q table 9-2 does not reserve."""
VNI_RANGE: Final = (1, 2**24 - 1)
"""24 bits (RFC 7348 section 5); 0 means none."""
VXLAN_OVERHEAD: Final = 50
"""Bytes that a tunnel adds to an IP packet: IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14 (untagged)."""
GATEWAY_MAC: Final = "02:1a:00:00:00:01"
"""The MAC of every gateway on every leaf. ``addressing`` numbers nodes from 1, so no interface has it."""
FLOOD_MAC: Final = "00:00:00:00:00:00"
"""The MAC of forwarding entries by which a VXLAN device floods (bridge(8))."""
BOND: Final = "bond"
"""The prefix of bond names, before their number."""
BOND_RANGE: Final = (1, 9999)
SEGMENT_MAC: Final = "02:1a:00:00:00:02"
"""The LACP system MAC of all leaves towards a host's bond; no interface has it."""
MAX_VRF_NAME: Final = 15
"""Characters: the VRF of a tenant is an interface."""


_SCOPED: Final = 239 << 24
"""239.0.0.0/8, the administratively scoped groups (RFC 2365), free for use in a fabric."""
RD_RANGE: Final = (10_000, 65_535)
"""Numbers of explicit route distinguishers: FRR counts its own from 1."""


def default_group(vni: int) -> IPv4Address | None:
    """Return the default group of a VNI: 239 (RFC 2365) and the VNI's 24 bits, which are unique.

    Return None for a group that switches flood to all ports, because its MAC is that of 224.0.0.0/24 (RFC 4541
    section 2.1.2).
    """
    group = IPv4Address(_SCOPED + vni)
    return None if is_flooded(group) else group


def is_flooded(group: IPv4Address) -> bool:
    """Return whether a group shares its MAC with 224.0.0.0/24, by its low 23 bits (RFC 1112 section 6.4)."""
    return int(group) & 0x7FFFFF < 256


class Design(StrEnum):
    """The sessions that carry EVPN routes."""

    EBGP = "ebgp"
    """The underlay's sessions: hop by hop, next hops unchanged."""
    EBGP_MULTIHOP = "ebgp-multihop"
    """Separate sessions between the loopbacks of neighbouring switches, with the AS numbers of the underlay."""
    IBGP = "ibgp"
    """The same with one AS number for all; the upper switch reflects routes (RFC 4456)."""
    VLANS = "vlans"
    """No EVPN, no VXLAN and no underlay. Links between switches are trunks of one bridged network with a spanning
    tree.
    """

    @property
    def of_loopbacks(self) -> bool:
        """Whether EVPN has its own sessions between loopbacks."""
        return self in {Design.EBGP_MULTIHOP, Design.IBGP}


class Flooding(StrEnum):
    """The delivery of broadcast, multicast and unknown unicast frames between leaves."""

    INGRESS = "ingress-replication"
    """The leaf sends one copy to each other leaf (RFC 8365 section 5.1.3)."""
    MULTICAST = "multicast"
    """The leaf sends one copy to the network's group, and the underlay replicates it (RFC 7348 section 4.2)."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A VRF; ``l3vni`` is 0 without routing."""

    name: str
    l3vni: int = 0
    rd: int = 0
    """Number of the route distinguisher, after each leaf's loopback (RFC 4364 section 4.2); 0 for FRR's default."""
    rt: str = ""
    """Route target as AS:number; "" for FRR's default."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host's interface in a network."""

    end: Endpoint
    tagged: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """One broadcast domain, with at most one subnet and one gateway for each IP version."""

    name: str
    vlan: int
    l2vni: int
    """0 in plain VLANs."""
    tenant: str = ""
    """The tenant whose VRF has the gateways; "" for none."""
    subnets: tuple[Subnet, ...] = ()
    gateways: tuple[Address, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    rd: int = 0
    rt: str = ""
    """As in ``Tenant``."""
    group: IPv4Address | None = None
    """The group that leaves flood to; None with ingress replication."""

    def gateway_of(self, subnet: Subnet) -> Address | None:
        """Return the gateway in ``subnet``, if any."""
        return next((gateway for gateway in self.gateways if gateway in subnet), None)


@dataclass(frozen=True, slots=True)
class Border:
    """An external router: a host's end, untagged in a network with gateways.

    It advertises prefixes to its leaf by eBGP.
    """

    router: Endpoint
    asn: int
    prefixes: tuple[Subnet, ...]


@dataclass(frozen=True, slots=True)
class Bond:
    """Interfaces of a host to two or more leaves, aggregated with LACP (IEEE 802.1AX): an Ethernet segment.

    Leaves identify the segment by its ESI (RFC 7432 section 8).
    """

    number: int
    members: tuple[Endpoint, ...]
    """The host's ends."""
    forwarder: str = ""
    """The preferred designated forwarder; "" for the leaf with the lowest VTEP."""

    @property
    def name(self) -> str:
        """The name of the interface, at the host and at its leaves."""
        return f"{BOND}{self.number}"

    @property
    def end(self) -> Endpoint:
        """The bond as an end of its host, as networks name it."""
        return replace(self.members[0], interface=self.name)

    @property
    def esi(self) -> str:
        """The identifier of type 3: the LACP system MAC of its leaves, and its number (RFC 7432 section 5)."""
        return f"03:{SEGMENT_MAC}:{self.number.to_bytes(3, 'big').hex(':')}"


@dataclass(frozen=True, slots=True)
class Overlay:
    """All tenants and networks of a fabric, in the order of the text."""

    tenants: tuple[Tenant, ...] = ()
    networks: tuple[Network, ...] = ()
    design: Design = Design.EBGP
    gateway_mac: str = GATEWAY_MAC
    leaks: tuple[tuple[str, str], ...] = ()
    """Pairs of tenants that reach each other's subnets."""
    border: tuple[Border, ...] = ()
    bonds: tuple[Bond, ...] = ()
    flooding: Flooding = Flooding.INGRESS

    @property
    def multicast(self) -> bool:
        """Whether PIM runs between switches."""
        return self.flooding is Flooding.MULTICAST

    @property
    def plain(self) -> bool:
        """Whether the overlay is plain VLANs with a spanning tree."""
        return self.design is Design.VLANS

    def partners(self, tenant: str) -> list[str]:
        """Return the other tenants whose subnets ``tenant`` reaches."""
        return [other for pair in self.leaks for one, other in (pair, pair[::-1]) if one == tenant]
