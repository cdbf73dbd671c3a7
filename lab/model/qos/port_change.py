"""Compute a requested change of QoS at ports of a running fabric, for all nodes at once, or reject it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.model.qos.change import apply_preset, apply_profile, parse_assignments
from lab.model.qos.link import take_link_change
from lab.model.qos.presets import PRESETS, suggest_profile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lab.model.qos.link import LinkChange
    from lab.model.qos.port import NodeQos
    from lab.model.qos.profile import QosProfile
    from lab.model.topology import Endpoint, Topology


@dataclass(frozen=True, slots=True)
class QosRequest:
    """A profile or preset by name, and assignments: ``ecn.3.kmin=20KB``, or ``rate=50Mbit`` of the link."""

    assignments: Sequence[str] = ()
    profile: str | None = None


def work_out(
    topology: Topology, nodes: Mapping[str, NodeQos], ports: Collection[Endpoint], request: QosRequest
) -> dict[str, NodeQos]:
    """Return the new QoS of each node that ``request`` changes at ``ports``.

    The link is changed first, then the profile is applied, then the assignments, so that times become bytes at the
    new rate. Errors are those of ``change``.
    """
    link_change, assignments = take_link_change(request.assignments)
    changed = _with_links(topology, nodes, ports, link_change)
    said = parse_assignments(assignments) if assignments else None
    for name in dict.fromkeys(end.node for end in ports):
        role = topology.node(name).role
        interfaces = [end.interface for end in ports if end.node == name]
        if request.profile is not None and request.profile in PRESETS:
            changed[name] = apply_preset(changed[name], role, interfaces, PRESETS[request.profile])
        elif request.profile is not None:
            changed[name] = apply_profile(changed[name], role, interfaces, _profile(topology, request.profile))
        if said is not None:
            changed[name] = apply_profile(changed[name], role, interfaces, said)
    return {name: node for name, node in changed.items() if node != nodes[name]}


def _with_links(
    topology: Topology, nodes: Mapping[str, NodeQos], ports: Collection[Endpoint], change: LinkChange
) -> dict[str, NodeQos]:
    """Return all nodes, with ``change`` at both ends of each link of ``ports``."""
    changed = dict(nodes)
    touched = [link for link in topology.links if set(link.ends) & set(ports)] if change else []
    for end in (end for link in touched for end in link.ends):
        node = changed[end.node]
        port = change.applied(node.ports[end.interface])
        changed[end.node] = replace(node, ports={**node.ports, end.interface: port})
    return changed


def _profile(topology: Topology, name: str) -> QosProfile:
    profiles = topology.qos.profiles if topology.qos is not None else {}
    if name not in profiles:
        known = [*PRESETS, *profiles]
        raise UsageError(f"there is no profile {name!r}", suggest_profile(name, known, f"choose {', '.join(known)}"))
    return profiles[name]
