"""Small fabrics with QoS, from a line of YAML."""

from typing import Any

from lab.model.load import load_topology
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.port import NodeQos, PortQos
from lab.model.qos.resolve import resolve
from lab.model.topology import Topology

SHAPE = "generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 2}"


def fabric(qos: str, rate: str = "100Mbit", extra: str = "", reaction: float = HOST_REACTION) -> Topology:
    """Two spines, two leaves, four hosts; leaf1's hosts h1 and h2 are on its swp3 and swp4."""
    text = f"name: t\ndefaults: {{rate: {rate}}}\n{SHAPE}\n{extra}\nqos: {qos}\n"
    return load_topology(text, reaction=reaction)


def node(qos: str, name: str = "leaf1", **where: Any) -> NodeQos:
    """One node's QoS."""
    return resolve(fabric(qos, **where))[name]


def port(qos: str, end: str = "leaf1:swp3", **where: Any) -> PortQos:
    """One port's QoS."""
    name, _, interface = end.partition(":")
    return node(qos, name, **where).ports[interface]


def profile(text: str) -> str:
    """``qos`` with one profile, of every port."""
    return f"{{fabric: [pfc-ecn, mine], profiles: {{mine: {text}}}}}"
