"""Resolve entries of a network's lists to interfaces of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lab.model.topology import Endpoint
from lab.model.values.suggest import suggest
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology

Bonds: TypeAlias = "Mapping[Endpoint, Endpoint]"
"""The end of each bond, by the ends that are its members."""


def end_of(topology: Topology, text: str, bonds: Bonds | None = None) -> Endpoint | SpecFinding:
    """Return the end named ``h1``, ``h1:eth2`` or ``h1:bond1``, or the reason why there is none.

    A bond replaces its members. The caller fills in the path of the finding.
    """
    name, _, interface = text.partition(":")
    node = topology.by_name.get(name)
    if node is None:
        hosts = [host.name for host in topology.hosts]
        return SpecFinding((), f"there is no node {name}", suggest(name, hosts, "name a host"))
    if node.role.is_switch:
        return SpecFinding((), f"{name} is a {node.role}", "name hosts: their leaves follow")
    ends = [link.end_at(name) for link in topology.links_of(name)]
    bonded = bonds or {}
    if (bond := bonded.get(Endpoint(name, interface))) is not None:
        return SpecFinding((), f"{text} is of {bond}", f"name {bond}: all its leaves are in the same networks")
    own = [end.interface for end in dict.fromkeys(bonded.get(end, end) for end in ends)]
    if interface and interface not in own:
        return SpecFinding((), f"{name} has no {interface}", f"it has {', '.join(own) or 'no interface'}")
    if not interface and len(own) != 1:
        return SpecFinding((), f"{name} has {len(own)} interfaces", f"say which: {name}:{own[0] if own else 'eth1'}")
    return Endpoint(name, interface or own[0])


def find_end(topology: Topology, text: str, bonds: Bonds | None = None) -> Endpoint | None:
    """Return the same, or None."""
    found = end_of(topology, text, bonds)
    return None if isinstance(found, SpecFinding) else found
