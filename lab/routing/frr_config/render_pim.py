"""PIM-SM in a switch's configuration: the trees by which leaves flood to groups (RFC 7761, RFC 7348 section 4.2).

Of the tunnels' groups pimd hears from zebra. Each has its rendezvous point among the uppermost switches, in turn, and
all stay on its tree. The point asks for what each leaf sends without having heard of it: FRR's leaves register that
they send to a group once a minute (``pim_vxlan.c``), and the first time may be before anybody can hear it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.intent import Flooding
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address

    from lab.model.addressing import NodePlan
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Topology


def rendezvous_points(topology: Topology, plans: Mapping[str, NodePlan]) -> dict[IPv4Address, IPv4Address]:
    """The loopback of each group's rendezvous point; none where leaves send copies."""
    overlay = topology.overlay
    if overlay is None or overlay.flooding is not Flooding.MULTICAST:
        return {}
    tops = topology.having(Role.SUPERSPINE) or topology.having(Role.SPINE)
    loopbacks = [address for top in tops for address in [plans[top.name].loopback4] if address is not None]
    groups = [network.group for network in overlay.networks if network.group is not None]
    return {group: loopbacks[number % len(loopbacks)] for number, group in enumerate(groups)}


def _senders(overlay: OverlayPlan, plans: Mapping[str, NodePlan]) -> Iterator[tuple[IPv4Address, IPv4Address]]:
    """Each group and the VTEP of each leaf that is in it."""
    for leaf, own in overlay.leaves.items():
        vtep = plans[leaf].vtep
        for tunnel in own.tunnels:
            if tunnel.group is not None and vtep is not None:
                yield tunnel.group, vtep


def pim_lines(topology: Topology, plans: Mapping[str, NodePlan], name: str) -> Iterator[str]:
    """What pimd of a switch reads; nothing where leaves send copies."""
    points = rendezvous_points(topology, plans)
    if not points:
        return
    for group, point in points.items():
        yield f"ip pim rp {point} {group}/{group.max_prefixlen}"
    yield "ip pim spt-switchover infinity-and-beyond"
    between = [each.name for each in plans[name].interfaces.values() if each.borrowed is not None]
    for interface in ("lo", *between):
        yield from (f"interface {interface}", " ip pim", "exit")


def asked_for(
    topology: Topology, overlay: OverlayPlan | None, plans: Mapping[str, NodePlan], name: str
) -> Iterator[str]:
    """What a rendezvous point asks for, which pimd takes when it runs: of a file, pimd of FRR 10.3 dies."""
    points = rendezvous_points(topology, plans)
    own = {group for group, point in points.items() if point == plans[name].loopback4}
    asked = [(group, vtep) for group, vtep in _senders(overlay, plans) if group in own] if overlay is not None else []
    if asked:
        yield from ("interface lo", "ip igmp")
        yield from (f"ip igmp static-group {group} {vtep}" for group, vtep in asked)
        yield "exit"
