"""The addresses, MACs and containers of an adopted lab, stored for later commands."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import TYPE_CHECKING, Any

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.process import files
from lab.model.addressing import InterfacePlan, NodePlan
from lab.model.topology import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lab.model.addressing import Interface
    from lab.model.topology import Topology


@dataclass(frozen=True, slots=True)
class AdoptedNode:
    """One node: its container, the container's first pid, and the output of ``ip -details -json address`` in it."""

    container: str
    pid: int
    addresses: str

    @property
    def interfaces(self) -> list[dict[str, Any]]:
        """The interfaces, as ip(8) prints them."""
        told: list[dict[str, Any]] = json.loads(self.addresses)
        return told


def save(file: Path, nodes: Mapping[str, AdoptedNode]) -> None:
    """Write the facts of all nodes; the file is replaced atomically."""
    kept = {name: [seen.container, seen.pid, seen.addresses] for name, seen in nodes.items()}
    file.parent.mkdir(mode=0o700, exist_ok=True)
    with files.replaced(file) as fresh:
        fresh.write_text(json.dumps(kept), encoding="utf-8")


def load(file: Path) -> dict[str, AdoptedNode]:
    """Return the facts that ``save`` stored; OperationFailed if the file is gone."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OperationFailed(f"{file} is gone", "rocelab down, then rocelab adopt again") from None
    return {name: AdoptedNode(container, int(pid), addresses) for name, (container, pid, addresses) in kept.items()}


def indexes(nodes: Mapping[str, AdoptedNode]) -> dict[str, dict[str, int]]:
    """Return the ifindex of each interface by node."""
    return {name: {each["ifname"]: each["ifindex"] for each in seen.interfaces} for name, seen in nodes.items()}


def with_their_mtus(topology: Topology, nodes: Mapping[str, AdoptedNode]) -> Topology:
    """Return the topology with the actual MTU of each link: the larger one of its two ends.

    EnvironmentLacks if an interface of a link is missing.
    """
    there = _ends(nodes)
    links = [replace(link, mtu=max(_found(there, end)["mtu"] for end in link.ends)) for link in topology.links]
    return replace(topology, links=tuple(links))


def refuse_others(topology: Topology, nodes: Mapping[str, AdoptedNode]) -> None:
    """Raise EnvironmentLacks if an end of a link is missing or not a veth: ports support only veths."""
    there = _ends(nodes)
    for end in (end for link in topology.links for end in link.ends):
        kind = _found(there, end).get("linkinfo", {}).get("info_kind", "physical")
        if kind != "veth":
            message = f"{end} is {kind}, and a lossless port goes on a veth"
            raise EnvironmentLacks(message, "adopt the lab without --qos")


def _ends(nodes: Mapping[str, AdoptedNode]) -> dict[Endpoint, dict[str, Any]]:
    """Return all interfaces of all nodes."""
    return {Endpoint(name, each["ifname"]): each for name, seen in nodes.items() for each in seen.interfaces}


def _found(there: Mapping[Endpoint, dict[str, Any]], end: Endpoint) -> dict[str, Any]:
    if end not in there:
        raise EnvironmentLacks(f"{end.node} has no interface {end.interface}", "deploy the lab anew")
    return there[end]


def plan_of(topology: Topology, nodes: Mapping[str, AdoptedNode]) -> dict[str, NodePlan]:
    """Return the plan of each node from its facts; EnvironmentLacks if an interface of a link is missing."""
    plans, there = {}, _ends(nodes)
    for node in topology.nodes:
        interfaces = {}
        for end in (link.end_at(node.name) for link in topology.links_of(node.name)):
            found = _found(there, end)
            address = next(iter(_addresses(found)), None)
            interfaces[end.interface] = InterfacePlan(end.interface, found.get("address", ""), address)
        loopback = list(_addresses(there.get(Endpoint(node.name, "lo"), {})))
        v4 = next((each.ip for each in loopback if isinstance(each, IPv4Interface)), None)
        v6 = next((each.ip for each in loopback if isinstance(each, IPv6Interface)), None)
        plans[node.name] = NodePlan(node, interfaces, loopback4=v4, loopback6=v6)
    return plans


def _addresses(said: Mapping[str, Any]) -> Iterable[Interface]:
    """Return the global addresses of an interface, IPv4 first."""
    found = [
        ip_interface(f"{each['local']}/{each['prefixlen']}")
        for each in said.get("addr_info", [])
        if each.get("scope") == "global" and "local" in each
    ]
    return sorted(found, key=lambda each: each.version)
