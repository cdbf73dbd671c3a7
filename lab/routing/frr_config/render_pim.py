"""Render the PIM-SM configuration of a switch: multicast trees for flooding (RFC 7761, RFC 7348 section 4.2).

pimd learns the groups of tunnels from zebra. The rendezvous points are the top-tier switches, assigned to groups in
turn, and all traffic stays on the shared tree. Each point joins every leaf's source statically: FRR's leaves register
a source only once a minute (``pim_vxlan.c``), and the first registration may come too early to be received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.overlay.intent import Flooding
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address

    from lab.model.addressing import NodePlan
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Topology

_HELLO: Final = 1
"""Seconds between two hello messages.

The next hop of an IPv4 route that BGP learned without addresses is one of IPv6. pimd of FRR 10.3 looks for its PIM
neighbor when the route comes, and never again: without a neighbor then, the tree has no branch for good. The first
hello is sent within this time, sooner than BGP has a route.
"""


def rendezvous_points(topology: Topology, plans: Mapping[str, NodePlan]) -> dict[IPv4Address, IPv4Address]:
    """Return the loopback of each group's rendezvous point; none with ingress replication."""
    overlay = topology.overlay
    if overlay is None or overlay.flooding is not Flooding.MULTICAST:
        return {}
    tops = topology.having(Role.SUPERSPINE) or topology.having(Role.SPINE)
    loopbacks = [address for top in tops for address in [plans[top.name].loopback4] if address is not None]
    groups = [network.group for network in overlay.networks if network.group is not None]
    return {group: loopbacks[number % len(loopbacks)] for number, group in enumerate(groups)}


def _senders(overlay: OverlayPlan, plans: Mapping[str, NodePlan]) -> Iterator[tuple[IPv4Address, IPv4Address]]:
    """Yield each group with the VTEP of each leaf in it."""
    for leaf, own in overlay.leaves.items():
        vtep = plans[leaf].vtep
        for tunnel in own.tunnels:
            if tunnel.group is not None and vtep is not None:
                yield tunnel.group, vtep


def pim_lines(topology: Topology, plans: Mapping[str, NodePlan], name: str) -> Iterator[str]:
    """Yield the pimd configuration of a switch; nothing with ingress replication."""
    points = rendezvous_points(topology, plans)
    if not points:
        return
    for group, point in points.items():
        yield f"ip pim rp {point} {group}/{group.max_prefixlen}"
    yield "ip pim spt-switchover infinity-and-beyond"
    between = [each.name for each in plans[name].interfaces.values() if each.borrowed is not None]
    for interface in ("lo", *between):
        yield from (f"interface {interface}", " ip pim", f" ip pim hello {_HELLO}", "exit")


def asked_for(
    topology: Topology, overlay: OverlayPlan | None, plans: Mapping[str, NodePlan], name: str
) -> Iterator[str]:
    """Yield static joins of a rendezvous point, for a running pimd: that of FRR 10.3 crashes on them in a file."""
    points = rendezvous_points(topology, plans)
    own = {group for group, point in points.items() if point == plans[name].loopback4}
    asked = [(group, vtep) for group, vtep in _senders(overlay, plans) if group in own] if overlay is not None else []
    if asked:
        yield from ("interface lo", "ip igmp")
        yield from (f"ip igmp static-group {group} {vtep}" for group, vtep in asked)
        yield "exit"
