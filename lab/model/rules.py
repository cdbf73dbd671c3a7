"""Rules that a topology file must obey: one function for each rule, which yields its findings.

``check_spec`` checks the text, and works on the well-formed part of a file. ``check_topology`` checks the fabric as a
whole, once its parts are right.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from lab.model.generate import LinkIndex, census, interface_prefix, node_of
from lab.model.graph import TierGraph
from lab.model.qos.qos_rules import check_names, check_places
from lab.model.spec import MAX_LINKS, MAX_NODES
from lab.model.topology import HostFamily, Role
from lab.model.values.suggest import suggest
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.spec import TopologySpec
    from lab.model.topology import Topology
    from lab.model.values.validate import Draft

_NEIGHBOURS: Final = {
    Role.HOST: "hosts link to leaves",
    Role.LEAF: "leaves link to hosts and spines",
    Role.SPINE: "spines link to leaves and super-spines",
    Role.SUPERSPINE: "super-spines link to spines",
}


def check_spec(draft: Draft) -> Iterator[SpecFinding]:
    """Yield the findings of every rule that needs only the text."""
    yield from _one_way_to_say_it(draft)
    yield from _bounded(draft.spec)
    yield from _only_hosts_have_rdma(draft.spec)
    yield from _links_join_neighbours(draft)
    yield from _interfaces_used_once(draft)
    yield from _pools_are_disjoint(draft.spec)
    if draft.spec.qos is not None:
        yield from check_names(draft.spec.qos, draft.profile_names)


def check_node_names(draft: Draft) -> Iterator[SpecFinding]:
    """Yield the nodes that ``qos`` names but ``nodes`` lacks, for files whose fabric cannot be built."""
    if draft.spec.qos is None or not draft.node_names:
        return
    for kind, places in (("nodes", draft.spec.qos.nodes), ("interfaces", draft.spec.qos.interfaces)):
        for place in places:
            node = node_of(place)
            if node not in draft.node_names:
                remedy = suggest(node, draft.node_names, "add it to nodes")
                yield SpecFinding(("qos", kind, place), f"there is no node {node}", remedy)


def check_topology(topology: Topology, spec: TopologySpec) -> Iterator[SpecFinding]:
    """Yield the findings of every rule about the fabric as a whole."""
    yield from _overrides_name_links(topology, spec)
    yield from _has_switches(topology)
    yield from _all_connected(topology)
    yield from _all_leaves_reach_each_other(topology)
    yield from _pools_suffice(topology)
    yield from check_places(topology)
    yield from _frr_is_of_switches(topology)


def _frr_is_of_switches(topology: Topology) -> Iterator[SpecFinding]:
    for name in topology.frr:
        node = topology.by_name.get(name)
        if node is None:
            remedy = suggest(name, topology.by_name, "name a switch")
            yield SpecFinding(("frr", name), f"there is no node {name}", remedy)
        elif not node.role.is_switch:
            yield SpecFinding(("frr", name), f"{name} is a host and runs no router", "name a switch")


def _one_way_to_say_it(draft: Draft) -> Iterator[SpecFinding]:
    spec = draft.spec
    written = bool(draft.node_names or spec.nodes or draft.link_numbers)
    generated = "generate" in draft.sections
    if generated and written:
        yield SpecFinding(("generate",), "is there beside nodes or links", "keep one: generate, or nodes and links")
    if not generated and not draft.sections & {"nodes", "links"}:
        yield SpecFinding((), "describes no fabric", "add generate, or nodes and links")
    if not generated and spec.overrides:
        yield SpecFinding(("overrides",), "need generate", "write the settings at the links themselves")


def _bounded(spec: TopologySpec) -> Iterator[SpecFinding]:
    nodes, links = census(spec.generate) if spec.generate else (len(spec.nodes), 0)
    path = ("generate",) if spec.generate else ("nodes",)
    if nodes > MAX_NODES:
        yield SpecFinding(path, f"makes {nodes} nodes", f"one kernel holds {MAX_NODES}; make the fabric smaller")
    if links > MAX_LINKS:
        yield SpecFinding(path, f"makes {links} links", f"one kernel holds {MAX_LINKS}; make the fabric smaller")


def _only_hosts_have_rdma(spec: TopologySpec) -> Iterator[SpecFinding]:
    for name, node in spec.nodes.items():
        if node.rdma is not None and node.role is not Role.HOST:
            yield SpecFinding(("nodes", name, "rdma"), f"is for hosts, not for a {node.role}", "remove it")


def _links_join_neighbours(draft: Draft) -> Iterator[SpecFinding]:
    roles = {name: node.role for name, node in draft.spec.nodes.items()}
    for number, link in zip(draft.link_numbers, draft.spec.links, strict=True):
        path = ("links", number, "ends")
        first, second = map(node_of, link.ends)
        for place, end in enumerate(link.ends):
            yield from _end_exists((*path, place), end, roles, draft)
        if first == second:
            yield SpecFinding(path, f"both are at {first}", "link two different nodes")
        elif first in roles and second in roles and abs(roles[first].tier - roles[second].tier) != 1:
            message = f"{first} is a {roles[first]} and {second} is a {roles[second]}"
            yield SpecFinding(
                path, message, _NEIGHBOURS[min(roles[first], roles[second], key=lambda role: role.tier)]
            )


def _end_exists(path: tuple[str | int, ...], end: str, roles: dict[str, Role], draft: Draft) -> Iterator[SpecFinding]:
    node, _, interface = end.partition(":")
    if node not in draft.node_names:
        yield SpecFinding(path, f"there is no node {node}", suggest(node, draft.node_names, "add it to nodes"))
    elif interface and node in roles and not interface.startswith(interface_prefix(roles[node])):
        right = interface_prefix(roles[node])
        yield SpecFinding(
            path, f"{node} is a {roles[node]} and has no {interface}", f"call it {right}{interface[3:]}"
        )


def _interfaces_used_once(draft: Draft) -> Iterator[SpecFinding]:
    first_use: dict[str, int] = {}
    for number, link in zip(draft.link_numbers, draft.spec.links, strict=True):
        for place, end in enumerate(link.ends):
            if ":" not in end:
                continue
            if end in first_use and first_use[end] != number:
                message = f"{end} already has a cable, links[{first_use[end]}]"
                yield SpecFinding(("links", number, "ends", place), message, "use another interface, or leave it out")
            first_use.setdefault(end, number)


def _pools_are_disjoint(spec: TopologySpec) -> Iterator[SpecFinding]:
    pools = {name: getattr(spec.addressing, name) for name in type(spec.addressing).model_fields}
    for (first, one), (second, other) in combinations(pools.items(), 2):
        if one.version == other.version and one.overlaps(other):
            path = ("addressing", second if second in spec.addressing.model_fields_set else first)
            there = first if path[1] == second else second
            message = f"{pools[path[1]]} overlaps {there} {pools[there]}"
            yield SpecFinding(path, message, "choose disjoint prefixes")
    for name, pool in pools.items():
        if pool.is_multicast or pool.is_loopback or pool.is_link_local or pool.is_unspecified:
            yield SpecFinding(("addressing", name), f"{pool} is not for unicast in a fabric", "use private addresses")


def _overrides_name_links(topology: Topology, spec: TopologySpec) -> Iterator[SpecFinding]:
    if not spec.overrides:
        return
    index = LinkIndex(topology.links)
    for name in spec.overrides:
        if not index.called(name):
            strangers = [node for node in map(node_of, name.split("--")) if node not in topology.by_name]
            message = f"there is no node {strangers[0]}" if strangers else "no link is called that"
            remedy = "see `rocelab topology show --json` for the links"
            remedy = suggest(strangers[0], topology.by_name, remedy) if strangers else remedy
            yield SpecFinding(("overrides", name), message, remedy)


def _has_switches(topology: Topology) -> Iterator[SpecFinding]:
    if not topology.having(Role.LEAF):
        yield SpecFinding((), "has no leaf", "add a node with role: leaf")


def _all_connected(topology: Topology) -> Iterator[SpecFinding]:
    for node in topology.nodes:
        if not topology.links_of(node.name) and len(topology.nodes) > 1:
            yield SpecFinding(("nodes", node.name), "has no link", "link it, or remove it")


def _all_leaves_reach_each_other(topology: Topology) -> Iterator[SpecFinding]:
    graph = TierGraph(topology)
    leaves = [leaf.name for leaf in topology.having(Role.LEAF) if topology.links_of(leaf.name)]
    everyone = sum(graph.leaf_bits[leaf] for leaf in leaves)
    for leaf in leaves:
        missing = everyone & ~graph.reached_by(leaf)
        if missing:
            other = leaves[[graph.leaf_bits[name] & missing > 0 for name in leaves].index(True)]
            more = missing.bit_count() - 1
            message = f"has no BGP path to {other}" + (f" and {more} more leaves" if more else "")
            remedy = "link both to one spine, or to spines of different pods below one super-spine"
            yield SpecFinding(("nodes", leaf), message, remedy)
            return


def _pools_suffice(topology: Topology) -> Iterator[SpecFinding]:
    pools = topology.addressing
    counts = {role: len(topology.having(role)) for role in Role}
    host_links = sum(len(topology.links_of(host.name)) for host in topology.hosts)
    ipv4 = topology.routing.host_family is HostFamily.IPV4
    needs = (
        ("leaf_loopbacks", pools.leaf_loopbacks, counts[Role.LEAF] + 1, 0),
        ("spine_loopbacks", pools.spine_loopbacks, counts[Role.SPINE] + 1, 0),
        ("superspine_loopbacks", pools.superspine_loopbacks, counts[Role.SUPERSPINE] + 1, 0),
        ("vteps", pools.vteps, counts[Role.LEAF] + 1, 0),
        ("host_links", pools.host_links, host_links if ipv4 else 0, 1),
        ("loopbacks6", pools.loopbacks6, Role.SUPERSPINE.tier + 1, 64),
        ("host_links6", pools.host_links6, 0 if ipv4 else host_links, 64),
    )
    for name, pool, needed, bits in needs:
        length = pool.max_prefixlen - bits - max(needed - 1, 0).bit_length()
        if needed and pool.prefixlen > length:
            what = f"/{pool.max_prefixlen - bits} prefixes" if bits else "addresses"
            yield SpecFinding(
                ("addressing", name), f"{pool} has no room for {needed} {what}", f"use a /{length} or shorter"
            )
