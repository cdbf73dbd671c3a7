"""A scenario at another place of its fabric: another leaf, uplink or host that has the same role.

A scenario is written for one place, such as ``leaf1:swp1``. It can run at every place that a symmetry of the topology
maps that place to. ``relocate`` finds such a symmetry, and ``Relocation.tree`` applies it to all strings of the
scenario's module: nodes, ports and addresses of the workload, the fault, the checks, the story and the answer::

    relocate(topology, "leaf1:swp1", "leaf2:swp2").text("h1 writes over leaf1:swp1")   # h5 writes over leaf2:swp2

In an overlay, hosts can only exchange places if they are in the same networks; VTEPs, AS numbers and MACs follow.
Plain VLANs, bonds and multicast have no other places: the root of the tree, the forwarder of a segment and the
rendezvous point are chosen by a node's number.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.model.addressing import plan_addresses
from lab.model.overlay.plan import mac_of
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.model.topology import Topology

_DRAIN: Final = "rx-"
"""Prefix of the interface that drains a host's NIC."""


@dataclass(frozen=True)
class Relocation:
    """A permutation of a topology's nodes and their ports; ``addresses`` also has VTEPs, AS numbers and MACs."""

    nodes: Mapping[str, str]
    ports: Mapping[str, str]
    addresses: Mapping[str, str]

    def text(self, text: str) -> str:
        """A text with all names and addresses replaced."""
        return _Translator(self).text(text)

    def tree(self, tree: ast.Module) -> ast.Module:
        """A module with all names and addresses in its strings replaced, in place."""
        _Translator(self).visit(tree)
        return tree

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a port, a node, an address, or an interface without its node."""
        interfaces = {port.partition(":")[2] for port in self.ports}
        names = sorted({*self.ports, *self.nodes, *self.addresses, *interfaces}, key=len, reverse=True)
        return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?!\w|\.\d)")


class _Translator(ast.NodeTransformer):
    """Replaces names in strings in source order; an interface alone belongs to the last node named before it."""

    def __init__(self, relocation: Relocation) -> None:
        self._to = relocation
        self._node = ""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = self.text(node.value)
        return node

    def text(self, text: str) -> str:
        return self._to.pattern.sub(self._name, text)

    def _name(self, match: re.Match[str]) -> str:
        name = match[0]
        node = name.partition(":")[0]
        if node in self._to.nodes:
            self._node = node
            return self._to.ports.get(name) or self._to.nodes[node]
        if name in self._to.addresses:
            return self._to.addresses[name]
        return self._to.ports.get(f"{self._node}:{name}", f":{name}").partition(":")[2]


def relocate(topology: Topology, place: str, at: str) -> Relocation:
    """The symmetry that maps ``place`` to ``at``, a node, a port or a link of the same form.

    UsageError where there is none; it lists the places that exist.
    """
    found = _relocation(topology, place, at)
    if found is None:
        known = places(topology, place)
        raise UsageError(f"no place {at!r} like {place}", suggest(at, known, f"choose one of {', '.join(known)}"))
    return found


def places(topology: Topology, place: str) -> list[str]:
    """All places that have the same role as ``place``, which comes first."""
    if "--" in place:
        tier = {node.name: node.role.tier for node in topology.nodes}
        pairs = [sorted((link.a.node, link.b.node), key=tier.__getitem__) for link in topology.links]
        every = list(dict.fromkeys("--".join(pair) for pair in pairs))
    elif ":" in place:
        every = [str(end) for link in topology.links for end in link.ends]
    else:
        every = [node.name for node in topology.nodes]
    return [place, *(each for each in every if each != place and _relocation(topology, place, each))]


def _relocation(topology: Topology, place: str, at: str) -> Relocation | None:
    for pins in _pins(topology, place, at):
        fixed = topology.faults or topology.frr or _is_ordered(topology)
        if fixed and any(node != image for node, image in pins.items()):
            continue
        nodes = _extended(topology, pins)
        if nodes is not None:
            ports = _ports(topology, nodes)
            if ":" not in place or ports[place] == at:
                return Relocation(nodes, ports, _addresses(topology, nodes, ports))
    return None


def _is_ordered(topology: Topology) -> bool:
    """Whether the overlay chooses nodes by their number, so that no two have the same role."""
    overlay = topology.overlay
    return overlay is not None and (overlay.plain or overlay.multicast or bool(overlay.bonds))


def _pins(topology: Topology, place: str, at: str) -> Iterator[dict[str, str]]:
    """The nodes that a place and its image determine."""
    if "--" in place and "--" in at:
        (a, b), (c, d) = place.split("--"), at.split("--")
        yield from ({a: c, b: d}, {a: d, b: c})
    elif ":" in place and ":" in at:
        peers = {str(end): link.other(end).node for link in topology.links for end in link.ends}
        if place in peers and at in peers:
            yield {place.partition(":")[0]: at.partition(":")[0], peers[place]: peers[at]}
    elif place in topology.by_name and at in topology.by_name:
        yield {place: at}


def _extended(topology: Topology, pins: Mapping[str, str]) -> dict[str, str] | None:
    """A symmetry with these images, which moves few other nodes; None where there is none."""
    order = [*pins, *(node.name for node in topology.nodes if node.name not in pins)]
    if any(name not in topology.by_name for name in (*pins, *pins.values())):
        return None
    links = _links_between(topology)
    kinds = {node.name: _kind(topology, node.name) for node in topology.nodes}

    def fits(node: str, image: str, so_far: Mapping[str, str]) -> bool:
        return (
            kinds[node] == kinds[image]
            and image not in so_far.values()
            and all(links.get((node, a)) == links.get((image, b)) for a, b in so_far.items())
        )

    def extend(so_far: dict[str, str]) -> dict[str, str] | None:
        if len(so_far) == len(order):
            return so_far
        node = order[len(so_far)]
        images = [pins[node]] if node in pins else [node, *(name for name in topology.by_name if name != node)]
        for image in images:
            if fits(node, image, so_far) and (found := extend({**so_far, node: image})) is not None:
                return found
        return None

    return extend({})


def _kind(topology: Topology, name: str) -> tuple[object, ...]:
    """The properties of a node, apart from its name and links, that its image must share."""
    node = topology.by_name[name]
    qos = topology.qos
    own = () if qos is None else (qos.nodes.get(name), *(
        profiles for port, profiles in qos.interfaces.items() if port.partition(":")[0] == name
    ))  # fmt: skip
    return node.role, node.pod, node.rdma, own, _networks_of(topology, name)


def _networks_of(topology: Topology, name: str) -> tuple[object, ...]:
    """The networks of a host, and what it advertises as an external router."""
    overlay = topology.overlay
    if overlay is None:
        return ()
    return (
        [
            (network.name, each.end.interface, each.tagged)
            for network in overlay.networks for each in network.attachments if each.end.node == name
        ],
        [(each.asn, each.prefixes) for each in overlay.border if each.router.node == name],
    )  # fmt: skip


def _links_between(topology: Topology) -> dict[tuple[str, str], list[tuple[object, ...]]]:
    """By pair of nodes, in both orders, the properties of the links between them."""
    found: dict[tuple[str, str], list[tuple[object, ...]]] = {}
    for link in topology.links:
        for one, other in ((link.a, link.b), (link.b, link.a)):
            found.setdefault((one.node, other.node), []).append((link.rate, link.mtu, link.delay))
    return found


def _ports(topology: Topology, nodes: Mapping[str, str]) -> dict[str, str]:
    """The image of every port: parallel links keep their order."""
    ends: dict[tuple[str, str], list[str]] = {}
    for link in topology.links:
        for one, other in ((link.a, link.b), (link.b, link.a)):
            ends.setdefault((one.node, other.node), []).append(one.interface)
    found = {}
    for (node, peer), interfaces in ends.items():
        for interface, image in zip(interfaces, ends[nodes[node], nodes[peer]], strict=True):
            found[f"{node}:{interface}"] = f"{nodes[node]}:{image}"
            found[f"{node}:{_DRAIN}{interface}"] = f"{nodes[node]}:{_DRAIN}{image}"
    return found


def _addresses(topology: Topology, nodes: Mapping[str, str], ports: Mapping[str, str]) -> dict[str, str]:
    """The image of every IPv4 address of a node, written with dots and as the end of a GID, AS number and MAC."""
    plans = plan_addresses(topology)
    numbers = {node.name: number for number, node in enumerate(topology.nodes, start=1)}
    found: dict[str, str] = {}
    for name, image in nodes.items():
        old_plan, new_plan = plans[name], plans[image]
        pairs = [(old_plan.loopback4, new_plan.loopback4), (old_plan.vtep, new_plan.vtep)]
        found[mac_of(numbers[name], 0)] = mac_of(numbers[image], 0)
        if old_plan.asn:
            found[str(old_plan.asn)] = str(new_plan.asn)
        for interface, here in old_plan.interfaces.items():
            port = f"{name}:{interface}"  # a bond is no port, and keeps its name
            there = new_plan.interfaces[ports.get(port, port).partition(":")[2]]
            found[here.mac] = there.mac
            if isinstance(here.address, IPv4Interface) and isinstance(there.address, IPv4Interface):
                pairs.append((here.address.ip, there.address.ip))
        for old, new in pairs:
            if old is not None and new is not None:
                found[str(old)] = str(new)
                found[_gid_end(old.packed)] = _gid_end(new.packed)
    return found


def _gid_end(octets: Sequence[int]) -> str:
    """The last eight octets of an address's GID: ``ffff:0a00:0009`` of 10.0.0.9."""
    first, second, third, fourth = octets
    return f"ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"
