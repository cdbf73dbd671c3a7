"""Rules of external routers: their places, and the prefixes that they advertise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.ends import end_of
from lab.model.overlay.intent import BOND, Attachment
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.overlay.intent import Network, Subnet
    from lab.model.overlay.overlay_spec import BorderSpec, OverlaySpec
    from lab.model.topology import Topology


def check_border(topology: Topology, spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield the findings of every rule about external routers; other rules check the hosts and networks."""
    networks = topology.overlay.networks if topology.overlay is not None else ()
    players: set[str] = set()
    for number, border in enumerate(spec.border):
        path = ("overlay", "border", number, "router")
        if BOND in border.router.partition(":")[2]:
            yield SpecFinding(
                path, f"{border.router} is on several leaves", "take a router with one link: one leaf's"
            )
            continue
        end = end_of(topology, border.router)
        if isinstance(end, SpecFinding):
            yield end._replace(path=path)
            continue
        home = next((each for each in networks if Attachment(end) in each.attachments), None)
        if end.node in players:
            yield SpecFinding(path, f"{end.node} is a router already", "name it once")
        elif home is None or not home.tenant or not home.gateways:
            remedy = "have it untagged in a network with a tenant and gateways"
            yield SpecFinding(path, f"{end} has no gateway to speak to", remedy)
        else:
            own = [
                subnet
                for each in networks
                if each.tenant == home.tenant
                for subnet in each.subnets
                if each.gateway_of(subnet) is not None
            ]
            yield from _prefixes_fit(number, border, home, own)
        players.add(end.node)


def _prefixes_fit(number: int, border: BorderSpec, home: Network, own: list[Subnet]) -> Iterator[SpecFinding]:
    """Yield prefixes that the router cannot advertise; several routers may advertise the same prefix.

    ``own`` are the tenant's routed subnets.
    """
    for place, prefix in enumerate(border.prefixes):
        path = ("overlay", "border", number, "prefixes", place)
        inside = next((net for net in own if _is_within(prefix, net)), None)
        if prefix.version not in {gateway.version for gateway in home.gateways}:
            message = f"{prefix} has no session: network {home.name} has no gateway of IPv{prefix.version}"
            yield SpecFinding(path, message, "give the network one, or leave the prefix out")
        elif inside is not None:
            yield SpecFinding(path, f"{prefix} is in {inside} of {home.tenant}", "use a prefix outside the fabric")
        elif prefix in border.prefixes[:place]:
            yield SpecFinding(path, f"{prefix} is already advertised by {border.router}", "name it once")


def _is_within(prefix: Subnet, subnet: Subnet) -> bool:
    return prefix.version == subnet.version and prefix.overlaps(subnet) and prefix.prefixlen >= subnet.prefixlen
