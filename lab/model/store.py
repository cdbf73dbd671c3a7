"""A resolved topology as JSON and back, exactly, in milliseconds: what a running fabric remembers of itself.

Not the format people write (``spec``), and without pydantic: every command about a running fabric starts with it.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any, Final

from lab.errors import InvalidInput, Problem
from lab.model.overlay.overlay_store import dump_overlay, restore_overlay
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


def dump(topology: Topology) -> str:
    """One line of JSON that ``restore`` turns into an equal topology."""
    routing, bfd = topology.routing, topology.routing.bfd
    return json.dumps(
        {
            "version": _VERSION,
            "name": topology.name,
            "description": topology.description,
            "routing": [routing.hash_policy, routing.hash_seed, routing.host_family],
            "underlay": routing.underlay,
            "bfd": [bfd.enabled, bfd.interval, bfd.multiplier],
            "qos": None if topology.qos is None else dump_intent(topology.qos),
            "frr": topology.frr,
            "faults": [{name: getattr(fault, name) for name in _FAULT} for fault in topology.faults],
            "overlay": None if topology.overlay is None else dump_overlay(topology.overlay),
            "addressing": [str(getattr(topology.addressing, pool)) for pool in _POOLS],
            "nodes": [[node.name, node.role, node.pod, node.rdma] for node in topology.nodes],
            "links": [
                [link.a.node, link.a.interface, link.b.node, link.b.interface, link.rate, link.mtu, link.delay]
                for link in topology.links
            ],
        },
        separators=(",", ":"),
    )


def restore(text: str, source: str = "<stored topology>") -> Topology:
    """The topology that ``dump`` wrote; InvalidInput when ``text`` is damaged or of another version of rocelab."""
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
    policy, seed, family = data["routing"]
    # Recordings of before there was `routing.underlay` have it in their overlay, or none.
    underlay = data.get("underlay") or (data["overlay"] or {}).get("underlay", Underlay.EBGP)
    pools: dict[str, Any] = {
        name: ip_network(prefix) for name, prefix in zip(_POOLS, data["addressing"], strict=True)
    }
    return Topology(
        name=data["name"],
        description=data["description"],
        routing=Routing(
            HashPolicy(policy), SeedPolicy(seed), HostFamily(family), Bfd(*data["bfd"]), Underlay(underlay)
        ),
        addressing=Addressing(**pools),
        qos=None if data["qos"] is None else restore_intent(data["qos"]),
        overlay=None if data["overlay"] is None else restore_overlay(data["overlay"]),
        frr={str(name): str(lines) for name, lines in data["frr"].items()},
        faults=tuple(DeclaredFault(**fault) for fault in data["faults"]),
        nodes=tuple(Node(name, Role(role), pod, rdma) for name, role, pod, rdma in data["nodes"]),
        links=tuple(
            Link(Endpoint(node_a, port_a), Endpoint(node_b, port_b), rate, mtu, delay)
            for node_a, port_a, node_b, port_b, rate, mtu, delay in data["links"]
        ),
    )
