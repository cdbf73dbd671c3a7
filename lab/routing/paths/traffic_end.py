"""Traffic ends: the interfaces of hosts with an address, in the underlay or in networks of the overlay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.model.topology import Endpoint
from lab.routing.paths.underlay_path import HostAttachment

if TYPE_CHECKING:
    from lab.model.addressing import NodePlan
    from lab.model.overlay.intent import Subnet
    from lab.model.overlay.plan import OverlayPlan


@dataclass(frozen=True, slots=True)
class Station:
    """A host's interface with an address.

    ``place.end`` is the end of its link, or the bond of several links. ``device`` may be a VLAN interface on top of
    it.
    """

    place: HostAttachment
    device: str
    network: str = ""
    """The overlay network; "" in the underlay."""
    vlan: int = 0
    """The VLAN tag; 0 for untagged."""
    subnet: Subnet | None = None
    """The subnet of the network; other networks may use the same one."""

    def __str__(self) -> str:
        return f"{self.place.end.node}:{self.device}"


def stations_of(node: str, plan: NodePlan, overlay: OverlayPlan | None) -> dict[str, Station]:
    """Return the interfaces of a host that have an address, by name, each with its first address."""
    found = {
        name: Station(HostAttachment(Endpoint(node, name), each.address.ip), name)
        for name, each in plan.interfaces.items()
        if each.address is not None
    }
    for own in overlay.hosts.get(node, ()) if overlay else ():
        if own.addresses:
            address = own.addresses[0].address
            place = HostAttachment(Endpoint(node, own.parent), address.ip)
            found[own.name] = Station(
                place=place, device=own.name, network=own.network, vlan=own.vlan, subnet=address.network
            )
    return found
