"""Objects of a node's kernel: interfaces, addresses, routes, rules, neighbours, queues, filters and bridges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lab.audit.objects.audited_object import AuditedObject

if TYPE_CHECKING:
    from lab.audit.objects.audited_object import Counters, Text

PROXY_ENTRY: Final = "proxy "
"""In the name of an entry, before the address that a node answers for."""
MAIN: Final = "main"
"""The name of the main routing table (ip-route(8))."""
DROPPING: Final = frozenset({"blackhole", "unreachable", "prohibit", "throw"})
"""Types of routes that drop packets, or end the lookup of a table (ip-route(8))."""

SHARING: Final = frozenset({"macvlan", "macvtap", "ipvlan", "ipvtap"})
"""Kinds of interfaces that take packets from another one, like macvlan in passthru mode (ip-link(8))."""


@dataclass(frozen=True, slots=True)
class InterfaceAudit(AuditedObject):
    """A network interface."""

    LABEL = "interface"
    KEY = ("name",)
    STATE = ("counters",)
    name: str
    kind: str
    """Like ``veth``, ``bridge`` or ``vxlan``; "" if the kernel names none."""
    up: bool
    """Whether it is administratively up."""
    carrier: bool
    """Whether it can carry packets."""
    mtu: int
    mac: str
    master: str
    """The bridge, bond or VRF that it belongs to; "" for none."""
    queue_length: int
    """txqueuelen, in packets."""
    options: Text = field(default_factory=dict)
    """Options of its kind, and of its membership in ``master``, with the names of ip-link(8)."""
    counters: Counters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddressAudit(AuditedObject):
    """An address of an interface."""

    LABEL = "address"
    KEY = ("address", "interface")
    interface: str
    address: str
    """With its prefix length."""
    scope: str
    flags: tuple[str, ...] = ()
    """Like ``deprecated``, ``dadfailed``."""


@dataclass(frozen=True, slots=True)
class RouteAudit(AuditedObject):
    """A route of any type, with all its next hops."""

    LABEL = "route"
    KEY = ("prefix", "table", "metric", "tos")
    prefix: str
    table: str
    metric: str
    """"" if it is 0."""
    type: str
    """unicast, blackhole, unreachable, prohibit, local, broadcast, ... (ip-route(8))."""
    protocol: str
    next_hops: tuple[str, ...]
    """Like ``via 10.0.0.0 dev eth1``; with the weight unless it is 1, and flags like ``linkdown``."""
    options: Text = field(default_factory=dict)
    tos: str = ""
    """The TOS of the packets that it is for; "" for all packets."""

    @property
    def identity(self) -> str:
        """The prefix, with the table unless it is the main one, the metric of several, and a TOS."""
        table = f" table {self.table}" if self.table != MAIN else ""
        metric = f" metric {self.metric}" if self.metric else ""
        return f"route {self.prefix}{table}{metric}" + (f" tos {self.tos}" if self.tos else "")

    @property
    def transient(self) -> bool:
        """Whether it is the route to a host's address in a VRF, which leaves learn from traffic (RFC 9136)."""
        single = self.prefix.endswith("/128" if ":" in self.prefix else "/32")
        return single and self.protocol == "bgp" and self.table != MAIN


@dataclass(frozen=True, slots=True)
class RuleAudit(AuditedObject):
    """A rule of policy routing (ip-rule(8))."""

    LABEL = "rule"
    KEY = ("family", "priority", "selector")
    family: str
    priority: int
    selector: str
    """Like ``from 10.0.0.1``; "" for all packets."""
    action: str
    """Like ``lookup main``."""


@dataclass(frozen=True, slots=True)
class NeighbourAudit(AuditedObject):
    """An entry of the neighbour table, or an address that the node answers ARP and ND requests for."""

    LABEL = "neighbour"
    KEY = ("address", "interface", "proxy")
    STATE = ("state",)
    interface: str
    address: str
    mac: str
    permanent: bool
    state: str
    """Like ``REACHABLE``, ``STALE`` or ``FAILED``."""
    proxy: bool = False
    """Whether the node answers requests for it in place of its owner (``ip neigh add proxy``)."""

    @property
    def identity(self) -> str:
        """The address and the interface; an address can be a neighbour and have a proxy."""
        return f"neighbour {PROXY_ENTRY if self.proxy else ''}{self.address} {self.interface}"

    @property
    def transient(self) -> bool:
        """Whether the kernel learned it."""
        return not self.permanent

    def settings(self) -> dict[str, str]:
        """Return nothing for an entry that is not resolved."""
        return AuditedObject.settings(self) if self.mac else {}


@dataclass(frozen=True, slots=True)
class SysctlAudit(AuditedObject):
    """A sysctl of the node's network namespace."""

    LABEL = "sysctl"
    KEY = ("name",)
    name: str
    value: str

    @property
    def place(self) -> str:
        """The interface of ``net.ipv4.conf.INTERFACE.NAME``, or of ``neigh`` in place of ``conf``."""
        match self.name.split(".", 3):
            case ["net", _, "conf" | "neigh", rest]:
                return rest.rpartition(".")[0]
        return ""


@dataclass(frozen=True, slots=True)
class QdiscAudit(AuditedObject):
    """A qdisc of an interface, with its counters."""

    LABEL = "qdisc"
    KEY = ("interface", "parent")
    STATE = ("counters", "handle")
    interface: str
    parent: str
    """``root``, ``ingress`` or the parent's handle."""
    kind: str
    handle: str
    options: Text = field(default_factory=dict)
    counters: Counters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterAudit(AuditedObject):
    """A tc filter, with the packets that its actions have seen, or a policy of IPsec, of kind ``xfrm``."""

    LABEL = "filter"
    KEY = ("interface", "hook", "priority", "kind", "handle")
    STATE = ("hits",)
    interface: str
    hook: str
    """``ingress``, ``egress`` or ``root``; for policies ``in``, ``out`` or ``fwd``."""
    priority: int
    handle: str
    """For policies their index."""
    kind: str
    match: str
    """Match and actions, as tc(8) prints them."""
    hits: int
    """Packets."""


@dataclass(frozen=True, slots=True)
class NftRuleAudit(AuditedObject):
    """A rule, or a base chain, of nftables, with its hits."""

    LABEL = "nft"
    KEY = ("chain", "rule")
    STATE = ("packets", "bytes", "number")
    chain: str
    """Family, table and chain."""
    rule: str
    """Its expressions; ``policy ...`` for a base chain."""
    packets: int
    bytes: int
    interface: str = ""
    """The device of a chain of the family netdev; "" for chains of all interfaces."""
    number: int = 0
    """The handle by which nft(8) deletes a rule; 0 for none."""


@dataclass(frozen=True, slots=True)
class FdbAudit(AuditedObject):
    """An entry of a bridge's or a tunnel's forwarding database."""

    LABEL = "fdb"
    KEY = ("mac", "interface", "vlan", "remote")
    mac: str
    interface: str
    vlan: str
    """"" for none."""
    remote: str
    """The VTEP; "" for a local port."""
    vni: str
    permanent: bool
    flags: tuple[str, ...]

    @property
    def transient(self) -> bool:
        """Whether it was learned, by the bridge or from EVPN."""
        return not self.permanent


@dataclass(frozen=True, slots=True)
class VlanAudit(AuditedObject):
    """A VLAN of a bridge's port."""

    LABEL = "vlan"
    KEY = ("vlan", "interface")
    interface: str
    vlan: int
    flags: tuple[str, ...]
    """``PVID``, ``Egress Untagged``."""
