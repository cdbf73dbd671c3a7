"""Differences without harm: what a single node may have by intent, and entries that say what is true anyway.

A border leaf has neighbours outside of the fabric, routes to them, and VRFs that no other leaf has. That its siblings
lack them says nothing. A neighbour entry with the MAC that ARP would find changes nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING, Final

from lab.audit.difference import PRESENCE, PRESENT
from lab.audit.objects.kernel_objects import DROPPING, SHARING
from lab.audit.rules.route_widths import LEARNED
from lab.model.addressing import POD_LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.audit.audited import NodeAudit
    from lab.audit.difference import Difference
    from lab.audit.placement import FabricRoles

_NEIGHBOUR: Final = "neighbor"
_GROUP: Final = "peer-group"
_OF_TENANTS: Final = ("vrf ", "vni ")
"""The beginnings of sections of FRR's configuration that exist for one tenant."""
_ORIGINATING: Final = frozenset({"redistribute", "default-originate", "default-information"})
"""Words of lines that advertise what is outside of the fabric."""
_PREFIXED: Final = (("ip", "route"), ("ipv6", "route"), ("network",), ("aggregate-address",))
"""The words before the prefix of a line of FRR that makes a route."""


def _is_new(found: Difference) -> bool:
    return found.field == PRESENCE and found.value.startswith(PRESENT)


@dataclass(frozen=True)
class Intentions:
    """The objects that a node of a fabric may have by intent, although its siblings have none."""

    nodes: Mapping[str, NodeAudit]
    placement: FabricRoles

    def is_possible(self, found: Difference) -> bool:
        """Return whether an object leads out of the fabric: one node of its role can have it.

        That is a session, also one that is down, a new line of FRR, a new interface without a cable, or a route that
        drops packets to no node. Lines about sessions and prefixes of the fabric itself are not.
        """
        if found.kind in {"bgp session", "bfd session"}:
            names = found.object.removeprefix(found.kind).split()
            return bool(names) and all(self._is_outside(found.node, each) for each in names)
        if not _is_new(found):
            return False
        if found.kind == "interface":
            return (found.node, found.interface) not in self.placement.peers
        if found.kind == "route":
            return self._is_possible_route(found)
        return found.kind == "frr" and self._is_possible_line(found)

    def _is_possible_route(self, found: Difference) -> bool:
        prefix = found.object.removeprefix("route").split()[:1]
        dropping = found.value.rpartition(" ")[2] in DROPPING
        return dropping and not prefix[0].endswith("/0") and not self._is_of_others(found.node, prefix[0])

    def _is_possible_line(self, found: Difference) -> bool:
        line = found.object.removeprefix("frr ").rpartition(" / ")[2]
        words = line.split()
        of_tenant = line.startswith(_OF_TENANTS) or (words[:1] == ["router"] and "vrf" in words)
        if of_tenant or _ORIGINATING & {*words}:
            return True
        if words[:1] == [_NEIGHBOUR] and len(words) > 2:
            return self._is_outside(found.node, words[1])
        for start in _PREFIXED:
            if tuple(words[: len(start)]) == start and len(words) > len(start):
                return not self._is_of_others(found.node, words[len(start)])
        return False

    def is_harmless(self, found: Difference) -> bool:
        """Return whether a difference changes nothing for the packets of the fabric.

        That is a new neighbour entry with the MAC of the interface that has its address, or a new interface without a
        cable that is no part of a bridge, bond or VRF, has none, and takes no packets from another one. Pods of a job
        bring an address of their leaf, a line by which it advertises their network, and routes to that.
        """
        node = self.nodes.get(found.node)
        if node is None or not _is_new(found):
            return False
        if found.kind in {"address", "frr", "route"}:
            return self._is_for_pod(node, found)
        if found.kind not in {"interface", "neighbour"}:
            return False
        if found.kind == "interface":
            joined = {each.master for each in node.interfaces}
            joined |= {each.name for each in node.interfaces if each.master or each.kind in SHARING}
            return self.is_possible(found) and found.interface not in joined
        entry = next((each for each in node.neighbours if each.identity == found.object), None)
        return entry is not None and entry.mac in self._macs_of(found.node, entry.interface, entry.address)

    def _is_for_pod(self, node: NodeAudit, found: Difference) -> bool:
        """Return whether an address, a line that advertises a network, or a learned route is for pods only."""
        words = found.object.split()
        if found.kind == "frr":
            words = words[-2:] if words[-2:-1] == ["network"] else []
        try:
            network = ip_interface(words[1]).network
        except (ValueError, IndexError):  # another line, a default route, or a damaged recording
            return False
        if network.version == 6 or not network.subnet_of(POD_LINKS):
            return False
        if found.kind == "route":
            routes = (each for each in node.routes if each.identity == found.object)
            return all(each.protocol in LEARNED and each.type not in DROPPING for each in routes)
        return not self._is_of_others(found.node, str(network))

    def _macs_of(self, node: str, interface: str, address: str) -> Iterator[str]:
        """Yield the MACs of the interfaces at the other end of a port that have an address."""
        peer = self.placement.peers.get((node, interface))
        there = self.nodes.get(peer.node) if peer is not None else None
        if there is not None:
            owning = {each.interface for each in there.addresses if each.address.partition("/")[0] == address}
            yield from (each.mac for each in there.interfaces if each.name in owning and each.up)

    def _is_outside(self, node: str, neighbour: str) -> bool:
        """Return whether a neighbour of a session, by interface, address or peer group, is no node of the fabric."""
        return all(self._is_no_node(node, each) for each in self._members(node).get(neighbour, [neighbour]))

    def _is_no_node(self, node: str, neighbour: str) -> bool:
        if (node, neighbour) in self.placement.peers:
            return False
        try:
            return ip_address(neighbour) not in self._addresses
        except ValueError:  # an interface without a cable of the fabric
            return True

    def _members(self, node: str) -> dict[str, list[str]]:
        """Return the neighbours in each peer group of a node."""
        found: dict[str, list[str]] = {}
        for each in self.nodes[node].frr if node in self.nodes else ():
            words = each.line.rpartition(" / ")[2].split()
            if words[:1] == [_NEIGHBOUR] and _GROUP in words[2:]:
                position = words.index(_GROUP)
                group = words[1] if words[position:] == [_GROUP] else words[position + 1]
                found.setdefault(group, []).extend([words[1]] if group != words[1] else [])
        return found

    def _is_of_others(self, node: str, prefix: str) -> bool:
        """Return whether a prefix has an address of another node. A default route leads to all that is outside."""
        try:
            network = ip_network(prefix, strict=False)
        except ValueError:
            return True
        own = {ip_interface(each.address).ip for each in self.nodes[node].addresses} if node in self.nodes else set()
        others = self._addresses - own
        return network.prefixlen > 0 and any(each.version == network.version and each in network for each in others)

    @cached_property
    def _addresses(self) -> frozenset[IPv4Address | IPv6Address]:
        return frozenset(ip_interface(each.address).ip for node in self.nodes.values() for each in node.addresses)
