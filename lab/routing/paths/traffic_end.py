"""Where packets begin and end: a host's interfaces that have addresses, in networks of the overlay or in none."""

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

    ``place.end`` is its link's, or the bond of several; ``device`` may be a VLAN's on top of it.
    """

    place: HostAttachment
    device: str
    network: str = ""
    """"" in the underlay."""
    vlan: int = 0
    """Of its tag; 0 without."""
    subnet: Subnet | None = None
    """Of a network: other networks may have the same."""

    def __str__(self) -> str:
        return f"{self.place.end.node}:{self.device}"


def stations_of(node: str, plan: NodePlan, overlay: OverlayPlan | None) -> dict[str, Station]:
    """A host's interfaces that have an address, by their names; of several addresses the first."""
    found = {
        name: Station(HostAttachment(Endpoint(node, name), each.address.ip), name)
        for name, each in plan.interfaces.items()
        if each.address is not None
    }
    for own in overlay.hosts.get(node, ()) if overlay else ():
        if own.addresses:
            address = own.addresses[0].address
            place = HostAttachment(Endpoint(node, own.parent), address.ip)
            found[own.name] = Station(place, own.name, own.network, own.vlan, address.network)
    return found
