"""Parts of an overlay plan: the devices, addresses and sessions of one node."""

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
    """A host's interface in a network: ``eth1``, or ``eth1.10`` if tagged; ``mtu`` in bytes of IP packet."""

    parent: str
    network: str
    vlan: int
    """The VLAN tag; 0 for untagged."""
    mtu: int
    addresses: tuple[InterfaceAddress, ...]

    @property
    def name(self) -> str:
        """The name of the interface."""
        return f"{self.parent}.{self.vlan}" if self.vlan else self.parent


@dataclass(frozen=True, slots=True)
class Bonded:
    """A bond at its host or at one of its leaves."""

    name: str
    number: int
    members: tuple[str, ...]
    """Interfaces of the node."""
    mac: str
    """The MAC of the first member."""
    mtu: int
    esi: str
    preference: int = 0
    """Preference in the election of the designated forwarder (RFC 9785); 0 at the host."""
    others: tuple[str, ...] = ()
    """The other leaves of its segment; none at the host."""


@dataclass(frozen=True, slots=True)
class BridgeMember:
    """A leaf's interface towards a host, as a port of its bridge."""

    interface: str
    untagged: int
    """The VLAN of untagged frames; 0 if they are dropped."""
    tagged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VxlanTunnel:
    """A VXLAN device: one VNI, in one VLAN of the bridge."""

    vni: int
    vlan: int
    group: IPv4Address | None = None
    """The group that the tunnel floods to; None if FRR installs the VTEPs."""

    @property
    def name(self) -> str:
        """The name of the device."""
        return f"vni{self.vni}"


@dataclass(frozen=True, slots=True)
class Vrf:
    """A tenant at a leaf; ``vlan`` is the L3VNI's, and both are 0 without routing."""

    name: str
    table: int
    l3vni: int
    vlan: int
    rd: int = 0
    rt: str = ""
    leaks: tuple[str, ...] = ()
    """Other VRFs of the leaf whose routes it imports."""
    subnets: tuple[Subnet, ...] = ()
    """The subnets of all networks of the tenant."""


@dataclass(frozen=True, slots=True)
class GatewayInterface:
    """An interface of a VLAN: a network's gateways or, without addresses, a tenant's router (RFC 9135 section 4)."""

    vlan: int
    vrf: str
    mac: str
    mtu: int
    addresses: tuple[Interface, ...] = ()

    @property
    def name(self) -> str:
        """The name of the interface."""
        return f"vlan{self.vlan}"


@dataclass(frozen=True, slots=True)
class External:
    """An external router, run on a host, and its sessions with its leaf: one for each IP version."""

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
        """The first address of each prefix, with which the router answers; none for a default route."""
        inside = (next(prefix.hosts(), prefix.network_address) for prefix in self.prefixes if prefix.prefixlen)
        return tuple(ip_interface(f"{address}/{address.max_prefixlen}") for address in inside)


@dataclass(frozen=True)
class LeafOverlay:
    """The overlay of one leaf; ``mtu`` is the largest IP packet in bytes that fits its tunnels."""

    mac: str
    mtu: int
    networks: tuple[Network, ...]
    ports: tuple[BridgeMember, ...]
    tunnels: tuple[VxlanTunnel, ...]
    vrfs: tuple[Vrf, ...]
    gateways: tuple[GatewayInterface, ...]
    externals: tuple[External, ...] = ()
    """The external routers that the leaf has sessions with."""
    bonds: tuple[Bonded, ...] = ()
    uplinks: tuple[str, ...] = ()
    """The interfaces towards switches."""
