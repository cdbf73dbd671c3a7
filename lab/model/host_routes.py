"""The routes of a host: a default route for each NIC and, on multihomed hosts, a routing table for each NIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.addressing import Address, NodePlan

_FIRST_TABLE: Final = 100


@dataclass(frozen=True, slots=True)
class HostRoute:
    """The default route of one NIC, with its gateway and metric.

    If ``table`` is not 0, packets from ``source`` look up that table first; it holds the same route.
    """

    interface: str
    gateway: Address
    source: Address
    metric: int
    table: int = 0


def host_routes(plan: NodePlan) -> Iterator[HostRoute]:
    """Yield the routes of a host, its first NIC's first, without the members of bonds.

    Switches get none: FRR installs their routes.
    """
    several = len(plan.interfaces) > 1
    bonds = {nic.bond for nic in plan.interfaces.values()}
    for number, nic in enumerate(plan.interfaces.values(), start=_FIRST_TABLE):
        if nic.name not in bonds and nic.gateway is not None and nic.address is not None:
            yield HostRoute(
                interface=nic.name,
                gateway=nic.gateway,
                source=nic.address.ip,
                metric=number,
                table=number if several else 0,
            )
