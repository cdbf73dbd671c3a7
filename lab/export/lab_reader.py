"""What a ``clab.yml`` says, as containerlab reads it: a node's settings from defaults, kind, group and itself.

Only nodes of kind ``linux`` and links of two of their interfaces are kept; ``left_out`` says what is not, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, Problem
from lab.export.node_files import FRR_FOLDER
from lab.model.load import read_text
from lab.model.yamltext import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_LAYERED: Final = ("labels", "sysctls", "env")
_VETH: Final = {"", "brief", "veth", "veth-stitch"}


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A container: all that is said of it, by the keys of the format."""

    name: str
    said: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, those of its group and kind among them."""
        return {str(key): str(value) for key, value in _mapping(self.said.get("labels")).items()}

    @property
    def frr_file(self) -> str:
        """Where in the lab's folder its frr.conf is; empty when it is not told."""
        binds = self.said.get("binds")
        for bind in binds if isinstance(binds, list) else []:
            kept, _, inside = str(bind).partition(":")
            inside = inside.partition(":")[0].rstrip("/")
            if inside == f"{FRR_FOLDER}/frr.conf":
                return kept
            if inside == FRR_FOLDER:
                return f"{kept.rstrip('/')}/frr.conf"
        return ""

    @property
    def is_router(self) -> bool:
        """Whether it runs FRR, by its files or its image."""
        return bool(self.frr_file) or "frr" in str(self.said.get("image", "")).lower().rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ReadLink:
    """A cable: both ends as (node, interface), bytes of MTU (0: not said), labels."""

    ends: tuple[tuple[str, str], tuple[str, str]]
    mtu: int
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return "--".join(":".join(end) for end in self.ends)


@dataclass(slots=True)
class ReadLab:
    """A lab, as far as it can be a fabric."""

    name: str
    folder: Path
    labels: Mapping[str, str]
    nodes: dict[str, ReadNode] = field(default_factory=dict)
    links: list[ReadLink] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_lab(file: Path) -> ReadLab:
    """Read the lab in ``file``; UsageError when it cannot be read, InvalidInput when it is no lab."""
    document = read_yaml(read_text(file), str(file))
    if document.problems:
        raise InvalidInput(str(file), document.problems)
    data = _mapping(document.data)
    topology = _mapping(data.get("topology"))
    nodes = topology.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise InvalidInput(str(file), [Problem("topology.nodes", "is missing", "name a containerlab topology file")])
    defaults = _mapping(topology.get("defaults"))
    lab = ReadLab(str(data.get("name", file.stem)), file.absolute().parent, _labels(defaults))
    for name, own in nodes.items():
        _add_node(lab, ReadNode(name, _settings(topology, defaults, _mapping(own))))
    links = topology.get("links")
    for number, link in enumerate(links if isinstance(links, list) else []):
        _add_link(lab, number, _mapping(link), nodes)
    return lab


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _labels(of: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in _mapping(of.get("labels")).items()}


def _settings(topology: Mapping[str, Any], defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The most specific wins, and mappings are joined, as containerlab does it."""
    group = _mapping(_mapping(topology.get("groups")).get(str(own.get("group", defaults.get("group", "")))))
    kind = str(own.get("kind", group.get("kind", defaults.get("kind", ""))))
    layers = (defaults, _mapping(_mapping(topology.get("kinds")).get(kind)), group, own)
    found: dict[str, Any] = {}
    for layer in layers:
        found |= {key: value for key, value in layer.items() if key not in _LAYERED}
        for key in _LAYERED:
            if key in layer:
                found[key] = {**_mapping(found.get(key)), **_mapping(layer[key])}
    return {**found, "kind": kind}


def _add_node(lab: ReadLab, node: ReadNode) -> None:
    if node.said["kind"] != "linux":
        lab.left_out.append(f"node {node.name}: its kind is {node.said['kind'] or 'not said'}, and not linux")
        return
    lab.nodes[node.name] = node


def _add_link(lab: ReadLab, number: int, link: Mapping[str, Any], nodes: Mapping[str, Any]) -> None:
    ends = list(_ends(link))
    named = "--".join(":".join(end) for end in ends) or f"links[{number}]"
    kind = str(link.get("type", ""))
    if kind not in _VETH or len(ends) != 2:
        lab.left_out.append(f"link {named}: it is of type {kind or 'unknown'}, and not between two nodes")
    elif missing := [node for node, _ in ends if node not in lab.nodes]:
        why = "is left out" if missing[0] in nodes else "is no node"
        lab.left_out.append(f"link {named}: {missing[0]} {why}")
    else:
        mtu = link.get("mtu", 0)
        lab.links.append(ReadLink((ends[0], ends[1]), mtu if isinstance(mtu, int) else 0, _labels(link)))


def _ends(link: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ends = link.get("endpoints")
    for end in ends if isinstance(ends, list) else []:
        if isinstance(end, str):
            node, _, interface = end.partition(":")
            yield node, interface
        elif isinstance(end, dict):
            yield str(end.get("node", "")), str(end.get("interface", ""))
