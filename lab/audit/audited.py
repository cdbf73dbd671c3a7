"""The state of a fabric, node by node: one dataclass for each kind of object.

``KEY`` names the fields that identify an object on its node. ``STATE`` names the fields that change by themselves on
a healthy fabric: counters, timers and ages. All other fields are settings, and comparisons look at these only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Text: TypeAlias = Mapping[str, str]
Counters: TypeAlias = Mapping[str, int]

ESTABLISHED: Final = "Established"
"""The state of a BGP session that is up (RFC 4271 section 8.2.2)."""
BFD_UP: Final = "up"
BFD_STARTING: Final = "starting"
"""The status of a BFD session that was never up: it begins with one packet a second (RFC 5880 section 6.8.3)."""
PROXY_ENTRY: Final = "proxy "
"""In the name of an entry, before the address that a node answers for."""
MAIN: Final = "main"
"""The name of the main routing table (ip-route(8))."""


class AuditedObject:
    """The base of all objects."""

    __slots__ = ()
    LABEL: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]
    STATE: ClassVar[tuple[str, ...]] = ()
    LEADING: ClassVar[str] = ""
    """The setting that the others depend on: if it differs, they are not compared."""

    @property
    def identity(self) -> str:
        """The object's name on its node, like ``route 10.0.0.0/31``."""
        return " ".join([self.LABEL, *filter(None, (str(getattr(self, name)) for name in self.KEY))])

    @property
    def transient(self) -> bool:
        """Whether traffic creates and removes the object: its absence means nothing."""
        return False

    @property
    def place(self) -> str:
        """The interface that the object belongs to; "" for none."""
        return str(getattr(self, "interface", ""))

    def settings(self) -> dict[str, str]:
        """Return the settings by name, as text. Those of a mapping are named by its keys."""
        return dict(self._settings())

    def _settings(self) -> Iterator[tuple[str, str]]:
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, each.name)
            if each.name in self.KEY or each.name in self.STATE:
                continue
            if isinstance(value, Mapping):
                yield from ((str(name), str(said)) for name, said in value.items())
            else:
                yield each.name.replace("_", " "), as_text(value)


def as_text(value: object) -> str:
    """Return a value as users read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value != "" else "none"


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
    STATE = ("packets", "bytes")
    chain: str
    """Family, table and chain."""
    rule: str
    """Its expressions; ``policy ...`` for a base chain."""
    packets: int
    bytes: int


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


@dataclass(frozen=True, slots=True)
class DaemonAudit(AuditedObject):
    """A routing daemon."""

    LABEL = "daemon"
    KEY = ("name",)
    name: str
    running: bool


@dataclass(frozen=True, slots=True)
class FrrLineAudit(AuditedObject):
    """A line of FRR's running configuration."""

    LABEL = "frr"
    KEY = ("line",)
    line: str
    """With its contexts in front, separated by ``/``."""


@dataclass(frozen=True, slots=True)
class BgpSessionAudit(AuditedObject):
    """A BGP session."""

    LABEL = "bgp session"
    KEY = ("peer", "vrf")
    STATE = ("uptime", "established", "dropped", "last_reset", "reset_age", "prefixes")
    LEADING = "state"
    peer: str
    """The interface, or the peer's address."""
    vrf: str
    """"" for the default VRF."""
    state: str
    """By RFC 4271 section 8.2.2."""
    remote_as: int
    local_as: int
    hold_time: float
    """Seconds, as negotiated."""
    keepalive: float
    """Seconds, as negotiated."""
    families: tuple[str, ...]
    uptime: float
    """Seconds."""
    established: int
    """The number of times that it was established."""
    dropped: int
    """The number of times that it was lost."""
    last_reset: str
    """The reason of the last reset; "" if there was none."""
    reset_age: float
    """Seconds since the last reset."""
    prefixes: Counters
    """Prefixes accepted, by address family."""

    @property
    def transient(self) -> bool:
        """Whether it is up: its absence from an earlier state means that it came up since."""
        return self.state == ESTABLISHED


@dataclass(frozen=True, slots=True)
class BfdSessionAudit(AuditedObject):
    """A BFD session."""

    LABEL = "bfd session"
    KEY = ("interface", "peer")
    STATE = ("uptime", "diagnostic")
    LEADING = "status"
    interface: str
    peer: str
    status: str
    receive_interval: int
    """Milliseconds."""
    transmit_interval: int
    """Milliseconds."""
    multiplier: int
    uptime: float
    """Seconds."""
    diagnostic: str

    @property
    def transient(self) -> bool:
        """Whether it is up: as for BGP sessions."""
        return self.status == BFD_UP

    def settings(self) -> dict[str, str]:
        """Return nothing for a session that has not come up yet."""
        return {} if self.status == BFD_STARTING else AuditedObject.settings(self)


@dataclass(frozen=True, slots=True)
class VniAudit(AuditedObject):
    """A VNI, as zebra knows it."""

    LABEL = "vni"
    KEY = ("vni",)
    STATE = ("macs", "neighbours")
    vni: int
    type: str
    """L2 or L3."""
    vrf: str
    tunnel: str
    """The VXLAN interface."""
    local: str
    """The address of this VTEP."""
    remotes: tuple[str, ...]
    """The other VTEPs."""
    macs: int
    neighbours: int


@dataclass(frozen=True, slots=True)
class PortAudit(AuditedObject):
    """The configuration of an emulated port in full, with the names of ``rocelab qos``."""

    LABEL = "port"
    KEY = ("interface",)
    interface: str
    settings_in_full: Text
    in_kernel: bool
    """Whether the programs of the port run with this configuration."""


@dataclass(frozen=True, slots=True)
class RdmaDeviceAudit(AuditedObject):
    """An RDMA device of a NIC."""

    LABEL = "rdma device"
    KEY = ("name",)
    STATE = ("counters",)
    LEADING = "state"
    name: str
    interface: str
    state: str
    """ACTIVE if it works, ``gone`` without device."""
    counters: Counters = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GidAudit(AuditedObject):
    """An entry of an RDMA device's GID table."""

    LABEL = "gid"
    KEY = ("device", "index")
    device: str
    index: int
    address: str
    type: str
    interface: str


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part of a node that did not answer."""

    part: str
    """Like ``kernel`` or ``bgpd``."""
    reason: str


@dataclass(frozen=True, slots=True)
class NodeAudit:
    """All objects of one node."""

    name: str
    role: str
    interfaces: tuple[InterfaceAudit, ...] = ()
    addresses: tuple[AddressAudit, ...] = ()
    routes: tuple[RouteAudit, ...] = ()
    rules: tuple[RuleAudit, ...] = ()
    neighbours: tuple[NeighbourAudit, ...] = ()
    sysctls: tuple[SysctlAudit, ...] = ()
    qdiscs: tuple[QdiscAudit, ...] = ()
    filters: tuple[FilterAudit, ...] = ()
    nft: tuple[NftRuleAudit, ...] = ()
    fdb: tuple[FdbAudit, ...] = ()
    vlans: tuple[VlanAudit, ...] = ()
    daemons: tuple[DaemonAudit, ...] = ()
    frr: tuple[FrrLineAudit, ...] = ()
    bgp: tuple[BgpSessionAudit, ...] = ()
    bfd: tuple[BfdSessionAudit, ...] = ()
    vnis: tuple[VniAudit, ...] = ()
    ports: tuple[PortAudit, ...] = ()
    rdma: tuple[RdmaDeviceAudit, ...] = ()
    gids: tuple[GidAudit, ...] = ()
    counters: Counters = field(default_factory=dict)
    """The counters of the kernel's network stack, as nstat(8) names them."""
    unread: tuple[UnreadPart, ...] = ()
    """Parts without an answer; their objects are missing here."""

    def objects(self) -> Iterator[AuditedObject]:
        """Yield all objects: configured ones before learned ones."""
        for group in (
            self.interfaces, self.addresses, self.rules, self.sysctls, self.qdiscs, self.filters, self.nft,
            self.vlans, self.ports, self.rdma, self.gids, self.daemons, self.frr, self.bgp, self.bfd, self.vnis,
            self.routes, self.neighbours, self.fdb,
        ):  # fmt: skip
            yield from group

    def settings(self) -> dict[str, dict[str, str]]:
        """Return the settings of all objects by the objects' names, of learned ones, too."""
        return {each.identity: each.settings() for each in self.objects()}


@dataclass(frozen=True, slots=True)
class FabricAudit:
    """The state of all nodes at one time."""

    fabric: str
    nodes: Mapping[str, NodeAudit]
