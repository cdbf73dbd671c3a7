"""The state of a fabric, node by node: one dataclass for each kind of object.

``KEY`` names the fields that identify an object on its node. ``STATE`` names the fields that change by themselves on
a healthy fabric: counters, timers and ages. All other fields are settings, and comparisons look at these only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.audit.objects.audited_object import AuditedObject, Counters
    from lab.audit.objects.device_objects import GidAudit, PortAudit, RdmaDeviceAudit
    from lab.audit.objects.kernel_objects import (
        AddressAudit,
        FdbAudit,
        FilterAudit,
        InterfaceAudit,
        NeighbourAudit,
        NftRuleAudit,
        QdiscAudit,
        RouteAudit,
        RuleAudit,
        SysctlAudit,
        VlanAudit,
    )
    from lab.audit.objects.routing_objects import (
        BfdSessionAudit,
        BgpSessionAudit,
        DaemonAudit,
        FrrLineAudit,
        VniAudit,
    )


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

    def bare_addresses(self) -> set[str]:
        """Return the node's addresses without their prefix lengths."""
        return {each.address.partition("/")[0] for each in self.addresses}

    def settings(self) -> dict[str, dict[str, str]]:
        """Return the settings of all objects by the objects' names, of learned ones, too."""
        return {each.identity: each.settings() for each in self.objects()}


@dataclass(frozen=True, slots=True)
class FabricAudit:
    """The state of all nodes at one time."""

    fabric: str
    nodes: Mapping[str, NodeAudit]
