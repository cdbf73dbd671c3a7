"""What a plan of an overlay is made of: the devices, addresses and sessions of one node."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface, ip_interface
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lab.model.overlay.intent import Address, Network, Subnet

Interface: TypeAlias = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An address of an interface, and the gateway of its subnet, if there is one."""

    address: Interface
    gateway: Address | None = None


@dataclass(frozen=True, slots=True)
class HostInterface:
    """A host's part in a network: ``eth1``, or ``eth1.10`` where it is tagged; ``mtu`` in bytes of IP packet."""

    parent: str
    network: str
    vlan: int
    """Of its tag; 0 without."""
    mtu: int
    addresses: tuple[InterfaceAddress, ...]

    @property
    def name(self) -> str:
        """What the interface is called."""
        return f"{self.parent}.{self.vlan}" if self.vlan else self.parent


@dataclass(frozen=True, slots=True)
class Bonded:
    """A bond at one of the nodes that it joins, and at a leaf what it knows of the others."""

    name: str
    number: int
    members: tuple[str, ...]
    """Interfaces of the node."""
    mac: str
    """Of its first member."""
    mtu: int
    esi: str
    preference: int = 0
    """In the election of the designated forwarder (RFC 9785); 0 at the host."""
    others: tuple[str, ...] = ()
    """The other leaves of its segment; none at the host."""


@dataclass(frozen=True, slots=True)
class BridgeMember:
    """A leaf's interface towards a host, as a port of its bridge."""

    interface: str
    untagged: int
    """The VLAN of frames without a tag; 0 where they are dropped."""
    tagged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VxlanTunnel:
    """A VXLAN device: one VNI, in one VLAN of the bridge."""

    vni: int
    vlan: int
    group: IPv4Address | None = None
    """To which it floods; None where FRR says to whom."""

    @property
    def name(self) -> str:
        """What the device is called."""
        return f"vni{self.vni}"


@dataclass(frozen=True, slots=True)
class Vrf:
    """A tenant at a leaf; ``vlan`` is the L3VNI's, and both are 0 where nothing is routed."""

    name: str
    table: int
    l3vni: int
    vlan: int
    rd: int = 0
    rt: str = ""
    leaks: tuple[str, ...] = ()
    """Other VRFs of the leaf whose routes it has."""
    subnets: tuple[Subnet, ...] = ()
    """The tenant's own, of all its networks."""


@dataclass(frozen=True, slots=True)
class GatewayInterface:
    """An interface of a VLAN: a network's gateways, or without addresses a tenant's router (RFC 9135 section 4)."""

    vlan: int
    vrf: str
    mac: str
    mtu: int
    addresses: tuple[Interface, ...] = ()

    @property
    def name(self) -> str:
        """What the interface is called."""
        return f"vlan{self.vlan}"


@dataclass(frozen=True, slots=True)
class External:
    """A router outside, played by a host, and its sessions with its leaf: one of each IP version."""

    host: str
    interface: str
    asn: int
    leaf: str
    tenant: str
    sessions: tuple[InterfaceAddress, ...]
    """Its own address and its leaf's, which is the gateway of the network."""
    prefixes: tuple[Subnet, ...]

    @property
    def addresses(self) -> tuple[Interface, ...]:
        """What it has of its prefixes, to answer with; of a default route nothing."""
        inside = (next(prefix.hosts(), prefix.network_address) for prefix in self.prefixes if prefix.prefixlen)
        return tuple(ip_interface(f"{address}/{address.max_prefixlen}") for address in inside)


@dataclass(frozen=True)
class LeafOverlay:
    """All that a leaf has of the overlay; ``mtu`` in bytes is what fits its tunnels."""

    mac: str
    mtu: int
    networks: tuple[Network, ...]
    ports: tuple[BridgeMember, ...]
    tunnels: tuple[VxlanTunnel, ...]
    vrfs: tuple[Vrf, ...]
    gateways: tuple[GatewayInterface, ...]
    externals: tuple[External, ...] = ()
    """The routers outside that it has sessions with."""
    bonds: tuple[Bonded, ...] = ()
    uplinks: tuple[str, ...] = ()
    """Its interfaces towards switches."""
