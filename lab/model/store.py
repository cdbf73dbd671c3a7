"""Serialise a resolved topology to JSON, and restore it exactly: the state of a running fabric.

This is not the format that users write (``spec``), and avoids pydantic for speed, because every command on a running
fabric starts with it.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any, Final

from lab.errors import InvalidInput, Problem
from lab.model.overlay.overlay_store import by_name, dump_overlay, restore_overlay
from lab.model.qos.qos_store import dump_intent, restore_intent
from lab.model.topology import (
    Addressing,
    Bfd,
    DeclaredFault,
    Endpoint,
    HashPolicy,
    HostFamily,
    Link,
    Node,
    Role,
    Routing,
    SeedPolicy,
    Topology,
    Underlay,
)

_VERSION: Final = 4
_POOLS: Final = tuple(Addressing.__slots__)
_FAULT: Final = tuple(DeclaredFault.__slots__)
_ROUTING: Final = ("hash_policy", "hash_seed", "host_family")
_BFD: Final = ("enabled", "interval", "multiplier")
_NODE: Final = ("name", "role", "pod", "rdma")
_LINK: Final = ("rate", "mtu", "delay")
_ENDS: Final = 4
"""The two ends of a link, node and interface each, come before its other fields."""


def dump(topology: Topology) -> str:
    """Return one line of JSON for ``restore``."""
    routing, bfd = topology.routing, topology.routing.bfd
    return json.dumps(
        {
            "version": _VERSION,
            "name": topology.name,
            "description": topology.description,
            "routing": [getattr(routing, name) for name in _ROUTING],
            "underlay": routing.underlay,
            "bfd": [getattr(bfd, name) for name in _BFD],
            "qos": None if topology.qos is None else dump_intent(topology.qos),
            "frr": topology.frr,
            "faults": [{name: getattr(fault, name) for name in _FAULT} for fault in topology.faults],
            "overlay": None if topology.overlay is None else dump_overlay(topology.overlay),
            "addressing": [str(getattr(topology.addressing, pool)) for pool in _POOLS],
            "nodes": [[getattr(node, name) for name in _NODE] for node in topology.nodes],
            "links": [
                [
                    link.a.node,
                    link.a.interface,
                    link.b.node,
                    link.b.interface,
                    *(getattr(link, name) for name in _LINK),
                ]
                for link in topology.links
            ],
        },
        separators=(",", ":"),
    )


def restore(text: str, source: str = "<stored topology>") -> Topology:
    """Return the topology of ``dump``; raise InvalidInput if it is damaged or of another version of rocelab."""
    try:
        data = json.loads(text)
        if data["version"] == _VERSION:
            return _topology(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        damaged = Problem("", "is damaged", "bring the fabric down and up again")
        raise InvalidInput(source, [damaged]) from error
    other = Problem("", "was written by another version of rocelab", "bring the fabric down and up again")
    raise InvalidInput(source, [other])


def _topology(data: dict[str, Any]) -> Topology:
    # Old recordings have `underlay` in their overlay, or not at all.
    underlay = data.get("underlay") or (data["overlay"] or {}).get("underlay", Underlay.EBGP)
    pools: dict[str, Any] = {
        name: ip_network(prefix) for name, prefix in zip(_POOLS, data["addressing"], strict=True)
    }
    return Topology(
        name=data["name"],
        description=data["description"],
        routing=_routing(
            **by_name(_ROUTING, data["routing"]), bfd=Bfd(**by_name(_BFD, data["bfd"])), underlay=Underlay(underlay)
        ),
        addressing=Addressing(**pools),
        qos=None if data["qos"] is None else restore_intent(data["qos"]),
        overlay=None if data["overlay"] is None else restore_overlay(data["overlay"]),
        frr={str(name): str(lines) for name, lines in data["frr"].items()},
        faults=tuple(DeclaredFault(**fault) for fault in data["faults"]),
        nodes=tuple(_node(**by_name(_NODE, each)) for each in data["nodes"]),
        links=tuple(map(_link, data["links"])),
    )


def _routing(*, hash_policy: str, hash_seed: str, host_family: str, **others: Any) -> Routing:
    return Routing(
        hash_policy=HashPolicy(hash_policy),
        hash_seed=SeedPolicy(hash_seed),
        host_family=HostFamily(host_family),
        **others,
    )


def _node(*, role: str, **others: Any) -> Node:
    return Node(role=Role(role), **others)


def _link(data: list[Any]) -> Link:
    node_a, interface_a, node_b, interface_b = data[:_ENDS]
    others = by_name(_LINK, data[_ENDS:])
    return Link(a=Endpoint(node_a, interface_a), b=Endpoint(node_b, interface_b), **others)
