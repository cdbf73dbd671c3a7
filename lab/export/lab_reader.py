"""What a ``clab.yml`` says, as containerlab reads it: a node's settings from defaults, kind, group and itself.

Only nodes of kind ``linux`` and links of two of their interfaces are kept; ``left_out`` says what is not, and why.
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
    """A container: all that is said of it, by the keys of the format."""

    name: str
    said: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, those of its group and kind among them."""
        return _labels(self.said)

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
    """A cable: both ends as (node, interface), bytes of MTU (0: none is stated), labels.

    ``number`` is its place in the file's list of links.
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
    """A lab, as far as it can be a fabric."""

    name: str
    file: pathlib.Path
    labels: Mapping[str, str]
    document: Document = field(default_factory=Document)
    nodes: dict[str, ReadNode] = field(default_factory=dict)
    links: list[ReadLink] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def folder(self) -> pathlib.Path:
        """Where the files are that its nodes bind."""
        return self.file.absolute().parent

    def problem(self, path: Path, message: str, remedy: str) -> Problem:
        """A problem at ``path`` of the lab's file, with the line of the nearest value that the file has there."""
        return Problem(format_path(path), message, remedy, self.document.line(path))

    def label_path(self, node: str, label: str) -> Path:
        """Where the file sets ``label`` of ``node``: at the node itself, its group, its kind, or the defaults."""
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
    lab = ReadLab(str(data.get("name", file.stem)), file, _labels(defaults), document)
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
    """A label as containerlab passes it on: ``true`` without quotes is text, too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


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
        lab.links.append(ReadLink((ends[0], ends[1]), stated, _labels(link), number))
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
