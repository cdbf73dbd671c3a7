"""Which interface of which host a network's list means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.suggest import suggest
from lab.model.topology import Endpoint
from lab.model.validate import Finding

if TYPE_CHECKING:
    from lab.model.topology import Topology


def end_of(topology: Topology, text: str) -> Endpoint | Finding:
    """The end that ``h1`` or ``h1:eth2`` means, or why it means none; the finding's path is for who knows it."""
    name, _, interface = text.partition(":")
    node = topology.by_name.get(name)
    if node is None:
        hosts = [host.name for host in topology.hosts]
        return Finding((), f"there is no node {name}", suggest(name, hosts, "name a host"))
    if node.role.is_switch:
        return Finding((), f"{name} is a {node.role}", "name hosts: their leaves follow")
    own = [link.end_at(name).interface for link in topology.links_of(name)]
    if interface and interface not in own:
        return Finding((), f"{name} has no {interface}", f"it has {', '.join(own) or 'no interface'}")
    if not interface and len(own) != 1:
        return Finding((), f"{name} has {len(own)} interfaces", f"say which: {name}:eth1")
    return Endpoint(name, interface or own[0])


def find_end(topology: Topology, text: str) -> Endpoint | None:
    """The same, or None."""
    found = end_of(topology, text)
    return None if isinstance(found, Finding) else found
