"""Rules about sessions: daemons run, sessions are up at both ends, and bring the prefixes that the peer has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.audit.difference import PRESENCE, PRESENT, UNPROTECTED, Difference, unread_kinds
from lab.audit.objects.kernel_objects import MAIN
from lab.audit.objects.routing_objects import BFD_STARTING, BFD_UP, ESTABLISHED
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.placement import FabricRoles
    from lab.model.topology import Endpoint


def of_sessions(node: NodeAudit) -> Iterator[Difference]:
    """Yield daemons and sessions that are down."""
    for daemon in node.daemons:
        if not daemon.running:
            yield Difference.of(node.name, daemon, "running", "no", "yes", RULE)
    for bgp in node.bgp:
        if bgp.state != ESTABLISHED:
            down = Difference.of(node.name, bgp, "state", bgp.state, ESTABLISHED, RULE)
            yield replace(down, interface=bgp.peer)


def of_bfd(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield BFD sessions that are down; if the other end has no such session, that end and not this one."""
    for bfd in node.bfd:
        if bfd.status in {BFD_UP, BFD_STARTING}:
            continue
        peer = placement.peers.get((node.name, bfd.interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        known = there is not None and not {"bfd session", "daemon"} & unread_kinds(there)
        if peer is None or there is None or not known or _has_bfd_with(there, peer.interface, node):
            yield Difference.of(node.name, bfd, "status", bfd.status, BFD_UP, RULE)
        else:
            yield Difference(
                node=there.name, kind="bfd session", object=f"bfd session {peer.interface}", field=PRESENCE,
                value=UNPROTECTED, expected=f"{PRESENT}, as at {node.name}:{bfd.interface}", against=RULE,
                interface=peer.interface,
            )  # fmt: skip


def _has_bfd_with(node: NodeAudit, interface: str, other: NodeAudit) -> bool:
    """Return whether a node has a BFD session with another one. Without a next hop FRR names no interface of it."""
    return any(each.interface == interface or each.peer in other.bare_addresses() for each in node.bfd)


def of_advertisements(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield sessions that are up and bring no prefix, although the peer has some to advertise."""
    for bgp in node.bgp:
        peer = placement.peers.get((node.name, bgp.peer))
        there = state.nodes.get(peer.node) if peer is not None and not bgp.vrf else None
        if peer is None or there is None or bgp.state != ESTABLISHED:
            continue
        for family, mark in (("ipv4Unicast", "."), ("ipv6Unicast", ":")):
            if bgp.prefixes.get(family) == 0 and any(mark in each for each in _advertised(there, peer, placement)):
                silent = Difference.of(node.name, bgp, f"{family} prefixes", "0", f"those of {there.name}", RULE)
                yield replace(silent, interface=bgp.peer)


def _advertised(node: NodeAudit, port: Endpoint, placement: FabricRoles) -> Iterator[str]:
    """Yield the prefixes that a node has for the other end of a port: of its hosts, and learned by other ports.

    Routes learned from the other end's own AS are left out: it rejects its AS number in a path (RFC 4271 section
    9.1.2), and routes of the same AS are not passed on in it (section 9.2).
    """
    receiving = {each.remote_as for each in node.bgp if each.peer == port.interface and not each.vrf}
    looping = {each.peer for each in node.bgp if each.remote_as in receiving and not each.vrf}
    for each in node.addresses:
        peer = placement.peers.get((node.name, each.interface))
        if peer is not None and each.scope == "global" and not placement.topology.node(peer.node).role.is_switch:
            yield each.address
    for route in node.routes:
        others = any(not {port.interface, *looping} & {*hop.split()} for hop in route.next_hops)
        if route.table == MAIN and route.protocol == "bgp" and others:
            yield route.prefix
