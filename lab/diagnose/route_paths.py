"""The shortest paths of a fabric, by which its routes are advertised: which sessions can take a route away."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING

from lab.model.topology import Role
from lab.routing.paths.distance import distances

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lab.audit.audited import NodeAudit
    from lab.diagnose.differing import DifferingSetting
    from lab.model.topology import Topology


@dataclass(frozen=True)
class RoutePaths:
    """The shortest paths of a fabric, by which its routes are advertised."""

    topology: Topology
    owners: Mapping[IPv4Network | IPv6Network, Collection[str]] = field(default_factory=dict)
    """The switches with an address in each network."""
    _distances: dict[str, dict[str, int]] = field(default_factory=dict)
    _owners: dict[str, Collection[str]] = field(default_factory=dict)
    """The owners of each prefix of a route: a fabric can have many routes and sessions that differ."""
    _peers: dict[tuple[str, str], str] = field(default_factory=dict)

    def passes(self, route: DifferingSetting, session: DifferingSetting) -> bool:
        """Return whether a route is advertised over a session, or by the node of a setting without a session.

        True if that is not known: for networks without an owner, routes of VRFs, and sessions over several links.
        """
        prefix, *words = words_of(route) or [""]
        if "table" in words or (not self._peer(session) and peer_address(session)):
            return True
        owners = self._owners_in(prefix)
        return not owners or any(self.leads(owner, route.node, session) for owner in owners)

    def ends_of(self, route: DifferingSetting) -> object:
        """Return a key: routes of equal ones pass the same sessions."""
        prefix, *words = words_of(route) or [""]
        return route.node, frozenset(self._owners_in(prefix)), "table" in words

    def leads(self, owner: str, node: str, session: DifferingSetting) -> bool:
        """Return whether a shortest path from one switch to another has a session's link, or a setting's node.

        Of a switch's own networks, any of its sessions is on the path.
        """
        peer = self._peer(session)
        ends = {session.node, peer} - {""}
        there, here = self._from(owner), self._from(node)
        if owner == node:
            return owner in ends
        if node not in there or session.node not in there:
            return True
        if peer not in there:
            return there[session.node] + here[session.node] == there[node]
        either = ((session.node, peer), (peer, session.node))
        return any(there[one] + 1 + here[other] == there[node] for one, other in either)

    def _peer(self, session: DifferingSetting) -> str:
        """Return the node at the other end of a session's or setting's link; "" without one."""
        port = session.node, session.interface
        if port not in self._peers:
            self._peers[port] = peer_of(self.topology, *port).partition(":")[0]
        return self._peers[port]

    def _owners_in(self, prefix: str) -> Collection[str]:
        if prefix not in self._owners:
            self._owners[prefix] = self._find_owners(prefix)
        return self._owners[prefix]

    def _find_owners(self, prefix: str) -> set[str]:
        try:
            network = ip_network(prefix, strict=False)
        except ValueError:  # of a damaged recording
            return set()
        if found := self.owners.get(network):
            return {*found}
        return {
            name
            for each, names in self.owners.items()
            if each.version == network.version and each.overlaps(network)
            for name in names
        }

    def _from(self, node: str) -> dict[str, int]:
        if node not in self._distances:
            self._distances[node] = distances(self.topology, node)
        return self._distances[node]


def owners_of_networks(nodes: Iterable[NodeAudit]) -> dict[IPv4Network | IPv6Network, set[str]]:
    """Return the switches with an address in each network, except for link-local ones."""
    found: dict[IPv4Network | IPv6Network, set[str]] = {}
    for node in nodes:
        for each in node.addresses if node.role != Role.HOST else ():
            if each.scope == "global":
                found.setdefault(ip_interface(each.address).network, set()).add(node.name)
    return found


def words_of(setting: DifferingSetting) -> list[str]:
    """Return the words of an object's name after its kind."""
    return setting.object.removeprefix(setting.kind).split()


def peer_address(session: DifferingSetting) -> str:
    """Return the address of a session's peer; "" if an interface names it."""
    return _first_address(session.object)


@lru_cache(maxsize=4096)
def _first_address(text: str) -> str:
    for word in text.split():
        try:
            return str(ip_address(word))
        except ValueError:
            continue
    return ""


def peer_of(topology: Topology, node: str, interface: str) -> str:
    """Return the other end of a port's link; "" without one."""
    return next(
        (
            str(link.other(link.end_at(node)))
            for link in topology.links_of(node)
            if link.end_at(node).interface == interface
        ),
        "",
    )
