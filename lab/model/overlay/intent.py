"""Tenants and networks as they will be built: every host's end named, every rule kept.

A network is a broadcast domain: a VLAN at its leaves and a VNI between them (RFC 7348, RFC 8365). A tenant is a VRF
on every leaf that has one of its networks, and with an L3VNI its leaves route between them (symmetric IRB, RFC 9135
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
"""Identifiers of IEEE 802.1Q table 9-2 that are anybody's."""
VNI_RANGE: Final = (1, 2**24 - 1)
"""24 bits (RFC 7348 section 5); 0 means none."""
VXLAN_OVERHEAD: Final = 50
"""Bytes that a tunnel adds to an IP packet: IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14; the inner tag is left out."""
GATEWAY_MAC: Final = "02:1a:00:00:00:01"
"""Of every gateway on every leaf; ``addressing`` numbers nodes from 1, so that no interface has it."""
BOND: Final = "bond"
"""What the names of bonds begin with; their number follows."""
BOND_RANGE: Final = (1, 9999)
SEGMENT_MAC: Final = "02:1a:00:00:00:02"
"""By which all leaves are one partner to a host's LACP; nobody's either."""
MAX_VRF_NAME: Final = 15
"""Characters: a tenant's VRF is an interface."""


_SCOPED: Final = 239 << 24
"""239.0.0.0/8, which is administratively scoped (RFC 2365): a fabric's own to use."""
RD_RANGE: Final = (10_000, 65_535)
"""Numbers of explicit route distinguishers: FRR counts its own from 1."""


def default_group(vni: int) -> IPv4Address | None:
    """The multicast group of a VNI of which none is said: 239 (RFC 2365) and its 24 bits, which no other VNI has.

    None where it would be an address that switches flood to all ports: its MAC is that of 224.0.0.0/24 (RFC 4541
    section 2.1.2).
    """
    group = IPv4Address(_SCOPED + vni)
    return None if is_flooded(group) else group


def is_flooded(group: IPv4Address) -> bool:
    """Whether the MAC of a group is that of one in 224.0.0.0/24: its low 23 bits decide (RFC 1112 section 6.4)."""
    return int(group) & 0x7FFFFF < 256


class Design(StrEnum):
    """Which sessions carry the routes of EVPN."""

    EBGP = "ebgp"
    """The underlay's: hop by hop, next hops unchanged."""
    EBGP_MULTIHOP = "ebgp-multihop"
    """Sessions of its own, between the loopbacks of neighbouring switches, by the AS numbers of the underlay."""
    IBGP = "ibgp"
    """The same with one AS number for all: who is above reflects (RFC 4456)."""
    VLANS = "vlans"
    """None: no EVPN, no VXLAN and no underlay. Links between switches are trunks of one bridged network, a tree."""

    @property
    def of_loopbacks(self) -> bool:
        """Whether EVPN has sessions of its own."""
        return self in {Design.EBGP_MULTIHOP, Design.IBGP}


class Flooding(StrEnum):
    """What becomes of a frame for all of a network: broadcast, multicast, unknown addresses."""

    INGRESS = "ingress-replication"
    """The leaf sends one copy to each other leaf (RFC 8365 section 5.1.3)."""
    MULTICAST = "multicast"
    """The leaf sends one to the network's group, and the underlay copies where ways part (RFC 7348 section 4.2)."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A VRF; ``l3vni`` is 0 where nothing is routed."""

    name: str
    l3vni: int = 0
    rd: int = 0
    """Number of its route distinguisher, behind each leaf's loopback (RFC 4364 section 4.2); 0 for FRR's own."""
    rt: str = ""
    """Its route target, AS:number; "" for FRR's own."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host's interface in a network."""

    end: Endpoint
    tagged: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """One broadcast domain; at most one subnet and one gateway of each IP version, the gateway in its subnet."""

    name: str
    vlan: int
    l2vni: int
    """0 in plain VLANs."""
    tenant: str = ""
    """Of whose VRF its gateways are; "" where it has none."""
    subnets: tuple[Subnet, ...] = ()
    gateways: tuple[Address, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    rd: int = 0
    rt: str = ""
    """As a tenant's."""
    group: IPv4Address | None = None
    """To which its leaves flood; None where they send copies."""

    def gateway_of(self, subnet: Subnet) -> Address | None:
        """The gateway in ``subnet``, if it has one."""
        return next((gateway for gateway in self.gateways if gateway in subnet), None)


@dataclass(frozen=True, slots=True)
class Border:
    """A router outside: a host's end, untagged in a network with gateways, that tells its leaf prefixes by eBGP."""

    router: Endpoint
    asn: int
    prefixes: tuple[Subnet, ...]


@dataclass(frozen=True, slots=True)
class Bond:
    """Interfaces of a host that are one by LACP (IEEE 802.1AX), to two leaves or more: an Ethernet segment.

    That is what RFC 7432 section 8 calls it, and its leaves are known to each other by its identifier.
    """

    number: int
    members: tuple[Endpoint, ...]
    """The host's ends."""
    forwarder: str = ""
    """The leaf that is to be its designated forwarder; "" for the one of the lowest VTEP."""

    @property
    def name(self) -> str:
        """What the interface is called, at the host and at its leaves."""
        return f"{BOND}{self.number}"

    @property
    def end(self) -> Endpoint:
        """The host's, as networks name it."""
        return replace(self.members[0], interface=self.name)

    @property
    def esi(self) -> str:
        """Its identifier of type 3: the MAC that LACP has of all its leaves, and its number (RFC 7432 section 5)."""
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
        """Whether it is plain VLANs with a spanning tree, and nothing over them."""
        return self.design is Design.VLANS

    def partners(self, tenant: str) -> list[str]:
        """The tenants whose subnets ``tenant`` reaches besides its own."""
        return [other for pair in self.leaks for one, other in (pair, pair[::-1]) if one == tenant]
