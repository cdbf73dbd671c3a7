"""Read a ``clab.yml`` as containerlab does: a node's settings come from defaults, kind, group and the node itself.

Only nodes of kind ``linux`` and links between two of their interfaces are kept; ``left_out`` lists the rest with
reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, Problem
from lab.export.node_files import FRR_FOLDER
from lab.model.load import read_text
from lab.model.values.yamltext import Document, Path, format_path, read_yaml

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Mapping

_LAYERED: Final = ("labels", "sysctls", "env")
_VETH: Final = {"", "brief", "veth", "veth-stitch"}


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A container with its merged settings, by the keys of the format."""

    name: str
    said: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the node, including those of its group and kind."""
        return _labels(self.said)

    @property
    def frr_file(self) -> str:
        """The path of the node's frr.conf in the lab's folder; "" if there is none."""
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
        """Whether the node runs FRR, by its files or its image."""
        return bool(self.frr_file) or "frr" in str(self.said.get("image", "")).lower().rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ReadLink:
    """A cable: both ends as (node, interface), MTU in bytes (0: not stated), and labels.

    ``number`` is its index in the file's list of links.
    """

    ends: tuple[tuple[str, str], tuple[str, str]]
    mtu: int
    labels: Mapping[str, str]
    number: int = 0

    def __str__(self) -> str:
        return "--".join(":".join(end) for end in self.ends)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of a lab that cannot be in a fabric, the reason, and its place in the lab's file."""

    what: str
    reason: str
    path: Path

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(slots=True)
class ReadLab:
    """The parts of a lab that can be a fabric."""

    name: str
    file: pathlib.Path
    labels: Mapping[str, str]
    document: Document = field(default_factory=Document)
    nodes: dict[str, ReadNode] = field(default_factory=dict)
    links: list[ReadLink] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def folder(self) -> pathlib.Path:
        """The folder of the lab's file; binds are relative to it."""
        return self.file.absolute().parent

    def problem(self, path: Path, message: str, remedy: str) -> Problem:
        """Return a problem at ``path`` of the lab's file, with the line of the nearest value in the file."""
        return Problem(path=format_path(path), message=message, remedy=remedy, line=self.document.line(path))

    def label_path(self, node: str, label: str) -> Path:
        """Return the place that sets ``label`` of ``node``: the node itself, its group, its kind, or the defaults."""
        said = self.nodes[node].said
        places: tuple[Path, ...] = (
            ("topology", "nodes", node),
            ("topology", "groups", str(said.get("group", ""))),
            ("topology", "kinds", str(said["kind"])),
            ("topology", "defaults"),
        )
        found = ((*place, "labels", label) for place in places)
        return next((path for path in found if path in self.document.lines), places[0])


def read_lab(file: pathlib.Path) -> ReadLab:
    """Read the lab in ``file``; raise UsageError if it cannot be read, and InvalidInput if it is no lab."""
    document = read_yaml(
        read_text(file, "a topology file of containerlab", "its name often ends in .clab.yml"), str(file)
    )
    if document.problems:
        raise InvalidInput(str(file), document.problems)
    data = _mapping(document.data)
    topology = _mapping(data.get("topology"))
    nodes = topology.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise InvalidInput(str(file), [Problem("topology.nodes", "is missing", "name a containerlab topology file")])
    defaults = _mapping(topology.get("defaults"))
    lab = ReadLab(name=str(data.get("name", file.stem)), file=file, labels=_labels(defaults), document=document)
    for name, own in nodes.items():
        _add_node(lab, ReadNode(name, _settings(topology, defaults, _mapping(own))))
    links = topology.get("links")
    for number, link in enumerate(links if isinstance(links, list) else []):
        _add_link(lab, number, _mapping(link), nodes)
    return lab


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _labels(of: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): _label_text(value) for key, value in _mapping(of.get("labels")).items()}


def _label_text(value: Any) -> str:
    """Return a label's text as containerlab passes it on; an unquoted ``true`` is text, too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _settings(topology: Mapping[str, Any], defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return merged settings: the most specific layer wins, and labels, sysctls and env are merged by key."""
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
        reason = f"its kind is {node.said['kind'] or 'not said'}, and not linux"
        lab.left_out.append(LeftOut(f"node {node.name}", reason, ("topology", "nodes", node.name)))
        return
    lab.nodes[node.name] = node


def _add_link(lab: ReadLab, number: int, link: Mapping[str, Any], nodes: Mapping[str, Any]) -> None:
    ends = list(_ends(link))
    named = "--".join(":".join(end) for end in ends) or f"links[{number}]"
    kind = str(link.get("type", ""))
    if kind not in _VETH or len(ends) != 2:
        reason = f"it is of type {kind or 'unknown'}, and not between two nodes"
    elif missing := [node for node, _ in ends if node not in lab.nodes]:
        reason = f"{missing[0]} {'is left out' if missing[0] in nodes else 'is no node'}"
    else:
        mtu = link.get("mtu", 0)
        stated = mtu if isinstance(mtu, int) and not isinstance(mtu, bool) else 0
        lab.links.append(ReadLink(ends=(ends[0], ends[1]), mtu=stated, labels=_labels(link), number=number))
        return
    lab.left_out.append(LeftOut(f"link {named}", reason, ("topology", "links", number)))


def _ends(link: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    ends = link.get("endpoints")
    for end in ends if isinstance(ends, list) else []:
        if isinstance(end, str):
            node, _, interface = end.partition(":")
            yield node, interface
        elif isinstance(end, dict):
            yield str(end.get("node", "")), str(end.get("interface", ""))
