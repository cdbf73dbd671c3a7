"""Find the nodes and ports that a text names, so that a page can highlight them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.model.topology import Topology

_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_.-]+)?")


def places_in(topology: Topology, text: str) -> dict[str, list[str]]:
    """Return ``nodes`` and ``ports`` in the order in which the text names them; a link names both of its ends."""
    nodes = {node.name: None for node in topology.nodes}
    ports = {str(end): str(link.other(end)) for link in topology.links for end in link.ends}
    found_nodes: dict[str, None] = {}
    found_ports: dict[str, None] = {}
    for word in re.split(r"[\s,;()]+", text):
        ends = word.split("--")
        if len(ends) == 2 and all(end in nodes for end in ends):
            found_ports.update(dict.fromkeys(_between(topology, ends[0], ends[1])))
            continue
        for name in _WORD.findall(word):
            name = name.rstrip(".:")  # noqa: PLW2901 - the full stop of a sentence
            if name in ports:
                found_ports[name] = None
            elif name in nodes:
                found_nodes[name] = None
    return {"nodes": list(found_nodes), "ports": list(found_ports)}


def _between(topology: Topology, one: str, other: str) -> list[str]:
    return [
        str(end) for link in topology.links if {end.node for end in link.ends} == {one, other} for end in link.ends
    ]
