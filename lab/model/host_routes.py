"""How a host finds its way out: a default route for each NIC, and each NIC's own where there are several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.addressing import Address, NodePlan

_FIRST_TABLE: Final = 100


@dataclass(frozen=True, slots=True)
class HostRoute:
    """A NIC's way out: the default route by its gateway, of this metric.

    What is sent from ``source`` looks into ``table`` first, which has the same route, where ``table`` is not 0.
    """

    interface: str
    gateway: Address
    source: Address
    metric: int
    table: int = 0


def host_routes(plan: NodePlan) -> Iterator[HostRoute]:
    """The routes of a host, its first NIC's first; a switch has none, it learns its own; a bond's come with it."""
    several = len(plan.interfaces) > 1
    bonds = {nic.bond for nic in plan.interfaces.values()}
    for number, nic in enumerate(plan.interfaces.values(), start=_FIRST_TABLE):
        if nic.name not in bonds and nic.gateway is not None and nic.address is not None:
            yield HostRoute(nic.name, nic.gateway, nic.address.ip, number, number if several else 0)
