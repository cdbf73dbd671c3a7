"""A resolved fabric: nodes, links and intent, with every default filled in and every rule checked.

``spec`` has the form that users write, and ``load`` converts it. Interfaces are named ``swp1`` on switches and
``eth1`` on hosts, counted from 1 in the order of the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.overlay.intent import Overlay
    from lab.model.qos.profile import QosIntent

MTU_RANGE: Final = (1280, 9216)
"""Bytes of IP packet: IPv6's minimum (RFC 8200 section 5) to the usual jumbo limit of a switch."""
RATE_RANGE: Final = (10**6, 25 * 10**9)
"""Bits per second that one kernel can shape to accurately."""
DELAY_RANGE: Final = (0.0, 1.0)
"""Seconds, one way."""
MAX_NODE_NAME: Final = 32
"""Characters: a node's name is its hostname, and part of its namespace's name."""
MAX_FABRIC_NAME: Final = 24
"""Characters: with a node's name and an interface's it must fit an altname (127)."""
MAX_INTERFACE_NAME: Final = 15
"""Characters: the kernel's IFNAMSIZ less its terminating zero."""


class Role(StrEnum):
    """The tier of a node; all but ``host`` are switches."""

    SUPERSPINE = "superspine"
    SPINE = "spine"
    LEAF = "leaf"
    HOST = "host"

    @property
    def is_switch(self) -> bool:
        """Whether the node forwards and runs FRR."""
        return self is not Role.HOST

    @property
    def tier(self) -> int:
        """Height in the fabric: hosts 0, leaves 1, spines 2, super-spines 3."""
        return {Role.HOST: 0, Role.LEAF: 1, Role.SPINE: 2, Role.SUPERSPINE: 3}[self]


class HashPolicy(StrEnum):
    """The fields that ECMP hashes (the kernel's fib_multipath_hash_policy)."""

    L3 = "l3"
    L4 = "l4"

    @property
    def sysctl(self) -> int:
        """The value of net.ipv4.fib_multipath_hash_policy: 0 for addresses, 3 for the fields of ``HASH_FIELDS``.

        Not 1, the kernel's L4: it reuses the hash that receive steering (get_rps_cpu) stores in a packet, which stays
        the same along the path. All switches would hash alike, whatever their seed.
        """
        return {HashPolicy.L3: 0, HashPolicy.L4: 3}[self]


HASH_FIELDS: Final = 0x37
"""Both addresses, the protocol, both ports: bits of net.ipv4.fib_multipath_hash_fields."""


class SeedPolicy(StrEnum):
    """Whether each switch hashes with its own seed; ``shared`` polarises a fabric of three tiers."""

    PER_SWITCH = "per-switch"
    SHARED = "shared"


class HostFamily(StrEnum):
    """The addresses of a link to a host: a /31 (RFC 3021) or a /64."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


class Underlay(StrEnum):
    """The routing protocol between switches."""

    EBGP = "ebgp"
    """A session on each link, an AS for each leaf (RFC 7938)."""
    OSPF = "ospf"
    """One area of unnumbered links: OSPFv2 (RFC 2328) and OSPFv3 (RFC 5340)."""
    ISIS = "isis"
    """Level 2 on unnumbered links, for IPv4 and IPv6 (RFC 1195, RFC 5308)."""

    @property
    def is_igp(self) -> bool:
        """Whether it is a link-state protocol, with adjacencies instead of sessions."""
        return self is not Underlay.EBGP


@dataclass(frozen=True, slots=True)
class Bfd:
    """BFD of every session and adjacency (RFC 5880); ``interval`` in seconds.

    Detection takes interval x multiplier.
    """

    enabled: bool = True
    interval: float = 1.0
    multiplier: int = 3


@dataclass(frozen=True, slots=True)
class DeclaredFault:
    """A fault of the topology file; ``lab.faults`` interprets it.

    Times are in seconds: it starts ``after`` convergence, lasts ``lasting``, and recurs with the period ``every``.
    """

    kind: str
    place: str
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """As written."""
    after: float = 0.0
    lasting: float | None = None
    every: float | None = None
    times: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Routing:
    """The intent for the underlay."""

    hash_policy: HashPolicy = HashPolicy.L4
    hash_seed: SeedPolicy = SeedPolicy.PER_SWITCH
    host_family: HostFamily = HostFamily.IPV4
    bfd: Bfd = field(default_factory=Bfd)
    underlay: Underlay = Underlay.EBGP


@dataclass(frozen=True, slots=True)
class Addressing:
    """The address pools of ``addressing.plan_addresses``: disjoint, and large enough for the fabric."""

    leaf_loopbacks: IPv4Network = IPv4Network("10.253.0.0/16")
    spine_loopbacks: IPv4Network = IPv4Network("10.254.0.0/16")
    superspine_loopbacks: IPv4Network = IPv4Network("10.255.0.0/16")
    vteps: IPv4Network = IPv4Network("10.252.0.0/16")
    host_links: IPv4Network = IPv4Network("10.0.0.0/9")
    loopbacks6: IPv6Network = IPv6Network("fdc0::/48")
    host_links6: IPv6Network = IPv6Network("fdc0:0:1::/48")


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One end of a link; prints as ``leaf1:swp1``."""

    node: str
    interface: str

    def __str__(self) -> str:
        return f"{self.node}:{self.interface}"


@dataclass(frozen=True, slots=True)
class Node:
    """A switch or a host. ``pod`` counts from 1 in fabrics with pods; ``rdma`` adds rxe to every NIC."""

    name: str
    role: Role
    pod: int = 0
    rdma: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A cable: ``rate`` in bit/s each way, ``mtu`` in bytes of IP packet, ``delay`` in seconds one way."""

    a: Endpoint
    b: Endpoint
    rate: int
    mtu: int
    delay: float = 0.0

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        """Both ends, ``a`` first."""
        return self.a, self.b

    def end_at(self, node: str) -> Endpoint:
        """Return the end at ``node``; raise KeyError if there is none."""
        for end in self.ends:
            if end.node == node:
                return end
        raise KeyError(node)

    def other(self, end: Endpoint) -> Endpoint:
        """Return the opposite end."""
        return self.b if end == self.a else self.a

    def __str__(self) -> str:
        return f"{self.a}--{self.b}"


@dataclass(frozen=True)
class Topology:
    """A whole fabric. Immutable; equal if built from the same text.

    Without ``qos``, links are only shaped; with it, every port is lossless (``qos.resolve``).
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    routing: Routing = field(default_factory=Routing)
    description: str = ""
    addressing: Addressing = field(default_factory=Addressing)
    qos: QosIntent | None = None
    frr: Mapping[str, str] = field(default_factory=dict)
    """Additional FRR lines by switch."""
    faults: tuple[DeclaredFault, ...] = ()
    overlay: Overlay | None = None
    """Its tenants and networks; without them every host is in the underlay."""

    @property
    def borrows(self) -> bool:
        """Whether links between switches borrow the loopback's address, for OSPF, IS-IS and PIM."""
        return self.routing.underlay.is_igp or (self.overlay is not None and self.overlay.multicast)

    @property
    def has_bgp(self) -> bool:
        """Whether switches run BGP, for the underlay or for EVPN."""
        if self.overlay is not None and self.overlay.plain:
            return False
        return self.overlay is not None or not self.routing.underlay.is_igp

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name, in the order of the text."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def _links_of(self) -> Mapping[str, tuple[Link, ...]]:
        found: dict[str, list[Link]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            for end in link.ends:
                found[end.node].append(link)
        return {name: tuple(links) for name, links in found.items()}

    def node(self, name: str) -> Node:
        """Return the node named ``name``; raise KeyError if there is none."""
        return self.by_name[name]

    def links_of(self, node: str) -> tuple[Link, ...]:
        """The links at ``node``, in the order of the text."""
        return self._links_of[node]

    def lower_first(self, link: Link) -> tuple[Endpoint, Endpoint]:
        """Both ends of ``link``, the one of the lower tier first."""
        low, high = link.ends
        return (low, high) if self.node(low.node).role.tier < self.node(high.node).role.tier else (high, low)

    def having(self, *roles: Role) -> tuple[Node, ...]:
        """All nodes of the given roles, in the order of the text."""
        return tuple(node for node in self.nodes if node.role in roles)

    @property
    def switches(self) -> tuple[Node, ...]:
        """All nodes that run a router."""
        return tuple(node for node in self.nodes if node.role.is_switch)

    @property
    def hosts(self) -> tuple[Node, ...]:
        """All hosts."""
        return self.having(Role.HOST)
