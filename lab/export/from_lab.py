"""Import a containerlab lab as a topology file: nodes, links and labels. rocelab plans everything else itself."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

import yaml

from lab.errors import InvalidInput
from lab.export import labels
from lab.export.lab_problems import at_the_lab, nothing_left
from lab.export.lab_reader import read_lab
from lab.export.node_files import OWN_LINES
from lab.export.roles import pods_of, roles_of, why
from lab.export.text import as_yaml
from lab.model.load import load_topology, read_text
from lab.model.spec import DefaultsSpec
from lab.model.topology import MAX_FABRIC_NAME, MAX_NODE_NAME, MTU_RANGE, Addressing, Role
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from lab.export.lab_reader import ReadLab, ReadLink

_OURS: Final = {"kind", "group", "labels", "image", "binds", "exec", "sysctls", "entrypoint", "cmd", "network-mode"}
"""Keys that an export writes for a node; rocelab plans all of them again."""
_UNUSED: Final = {"kind", "group", "labels"}
_SHOWN: Final = 4


@dataclass
class _Import:
    """The state of an import."""

    lab: ReadLab
    roles: dict[str, Role]
    pods: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def import_lab(file: Path) -> tuple[str, list[str]]:
    """Return the text of the topology file, and a note for each part of the lab that it lacks.

    Raises UsageError if ``file`` cannot be read, and InvalidInput if it is no lab, or none that can be a fabric.
    """
    lab = read_lab(file)
    work = _Import(lab, roles_of(lab))
    links = [link for link in lab.links if _joins_neighbours(work, link)]
    strangers = [link for link in lab.links if not _joins_neighbours(work, link)]
    linked = {node for link in links for node, _ in link.ends}
    work.notes += [str(each) for each in lab.left_out]
    work.notes += [_why_no_neighbours(work, link) for link in strangers]
    unsure = {node for link in strangers for node, _ in link.ends}
    work.notes += [_why_left_out(work, name, name in unsure) for name in lab.nodes if name not in linked]
    if not linked:
        raise nothing_left(lab, work.roles, strangers)
    work.pods = pods_of(lab, work.roles, links)
    _name_nodes(work, [name for name in lab.nodes if name in linked])
    text = _text(work, links)
    work.notes += _not_taken(work)
    text = as_yaml({}, _head(file, work.notes)).removesuffix("{}\n") + text
    try:
        load_topology(text)
    except InvalidInput as error:
        raise at_the_lab(lab, error.problems, work.names, links, work.roles) from error
    return text, work.notes


def _head(file: Path, notes: Iterable[str]) -> Iterator[str]:
    yield f"From {file.name}, by rocelab import. Addresses, AS numbers and BGP are rocelab's own plan. Not in here:"
    yield from (f"- {note}" for note in notes)


def _joins_neighbours(work: _Import, link: ReadLink) -> bool:
    one, other = (work.roles[node] for node, _ in link.ends)
    return abs(one.tier - other.tier) == 1


def _why_no_neighbours(work: _Import, link: ReadLink) -> str:
    one, other = (work.roles[node] for node, _ in link.ends)
    return f"link {link}: a {one} and a {other} are no neighbours"


def _why_left_out(work: _Import, node: str, unsure: bool) -> str:
    """Return the note on a node without links; ``unsure``: it has one to a tier that is not next to its own."""
    told, role = f"node {node}: no link of it is left", work.roles[node]
    if not unsure:
        return told
    reason = why(work.lab, node, role)
    return f"{told}; it is treated as a {role} ({reason}): label it with {labels.ROLE} if that is wrong"


def _name_nodes(work: _Import, nodes: Iterable[str]) -> None:
    taken: set[str] = set()
    for node in nodes:
        work.names[node] = name = _free_name(plain_name(node, MAX_NODE_NAME), taken)
        taken.add(name)
        if name != node:
            work.notes.append(f"node {node} is called {name}")


def _free_name(name: str, taken: set[str]) -> str:
    """Return ``name``, or a shortened ``name`` with the lowest unused number, from 2."""
    numbered = (f"{name[: MAX_NODE_NAME - len(f'-{number}')].rstrip('-')}-{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


def plain_name(name: str, limit: int) -> str:
    """Return the nearest valid name for a fabric or node, with at most ``limit`` characters."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"n{plain}")[:limit].rstrip("-")


def _text(work: _Import, links: list[ReadLink]) -> str:
    said = work.lab.labels
    data: dict[str, Any] = {"name": plain_name(work.lab.name, MAX_FABRIC_NAME)}
    if labels.DESCRIPTION in said:
        data["description"] = said[labels.DESCRIPTION]
    usual = _usual(links)
    if usual:
        data["defaults"] = usual
    if routing := _routing(said):
        data["routing"] = routing
    pools = {
        pool: said[labels.ADDRESSING + pool] for pool in Addressing.__slots__ if labels.ADDRESSING + pool in said
    }
    if pools:
        data["addressing"] = pools
    if own := dict(_own_lines(work)):
        data["frr"] = own
    nodes = "".join(f"  {name}: {_flow(_node(work, node))}\n" for node, name in work.names.items())
    cables = "".join(f"  - {_flow(each)}\n" for each in _links(work, links, usual))
    return f"{as_yaml(data)}nodes:\n{nodes}links:\n{cables}"


def _flow(data: Any) -> str:
    return yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=10**6).strip()


def _routing(said: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: said[labels.ROUTING + key] for key in labels.SETTINGS if labels.ROUTING + key in said
    }
    bfd = {key.removeprefix(labels.BFD): _scalar(value) for key, value in said.items() if key.startswith(labels.BFD)}
    return {**found, "bfd": bfd} if bfd else found


def _scalar(text: str) -> bool | int | str:
    """Return a label's value for the topology file: true, false and whole numbers are not strings there."""
    if re.fullmatch("[0-9]{1,9}", text, re.ASCII):
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def _node(work: _Import, node: str) -> dict[str, Any]:
    said, role = work.lab.nodes[node].labels, work.roles[node]
    found: dict[str, Any] = {"role": role.value}
    if node in work.pods:
        found["pod"] = work.pods[node]
    if role is Role.HOST and said.get(labels.RDMA) == "false":
        found["rdma"] = False
    return found


def _usual(links: list[ReadLink]) -> dict[str, Any]:
    """Return the most common rate and MTU, each only if all links state one; other links keep rocelab's default."""
    rates = Counter(link.labels.get(labels.RATE) for link in links)
    sizes = Counter(link.mtu if _can_be(link.mtu) else None for link in links)
    found: dict[str, Counter[Any]] = {"rate": rates, "mtu": sizes}
    return {key: counts.most_common(1)[0][0] for key, counts in found.items() if None not in counts}


def _can_be(mtu: int) -> bool:
    return MTU_RANGE[0] <= mtu <= MTU_RANGE[1]


def _links(work: _Import, links: list[ReadLink], usual: dict[str, Any]) -> Iterator[dict[str, Any]]:
    taken: set[str] = set()
    other_names = []
    for link in links:
        ends = []
        for node, interface in link.ends:
            end = _end(work, node, interface, taken)
            ends.append(end)
            if end.partition(":")[2] != interface:
                other_names.append(f"{node}:{interface} is {end}")
        told = {"rate": link.labels.get(labels.RATE), "mtu": link.mtu, "delay": link.labels.get(labels.DELAY)}
        if link.mtu and not _can_be(link.mtu):
            work.notes.append(f"link {link}: its MTU of {link.mtu} is out of range")
            del told["mtu"]
        yield {"ends": ends} | {key: value for key, value in told.items() if value and value != usual.get(key)}
    if silent := sum(link.mtu == 0 for link in links):
        where = counted(silent, "link that states none", "links that state none")
        work.notes.append(f"MTU of {where}: rocelab's default is {DefaultsSpec().mtu}, containerlab's is 9500")
    if other_names:
        more = f", and {len(other_names) - _SHOWN} more" if len(other_names) > _SHOWN else ""
        work.notes.append(f"names of interfaces: {', '.join(other_names[:_SHOWN])}{more}")


def _end(work: _Import, node: str, interface: str, taken: set[str]) -> str:
    """Return ``leaf1:swp3`` for an interface with number 3; without a number, or if it is taken, only the node."""
    number = re.search(r"[1-9][0-9]{0,3}$", interface)
    prefix = "swp" if work.roles[node].is_switch else "eth"
    end = f"{work.names[node]}:{prefix}{number[0]}" if number else work.names[node]
    if not number or end in taken:
        return work.names[node]
    taken.add(end)
    return end


def _own_lines(work: _Import) -> Iterator[tuple[str, str]]:
    """Yield the user's own lines in an exported frr.conf, by node."""
    for node, name in work.names.items():
        read = work.lab.nodes[node]
        if labels.ROLE not in read.labels or not read.frr_file:
            continue
        file = work.lab.folder / read.frr_file
        if not file.is_file():
            work.notes.append(f"node {node}: {read.frr_file} is not there, and what it says for FRR")
        elif own := read_text(file).partition(f"{OWN_LINES}\n")[2]:
            yield name, own


def _not_taken(work: _Import) -> Iterator[str]:
    """Yield the keys of nodes that the import ignores."""
    where: dict[str, list[str]] = {}
    for name, node in work.lab.nodes.items():
        exported = labels.ROLE in node.labels
        for key in node.said.keys() - (_OURS if exported else _UNUSED):
            where.setdefault(key, []).append(name)
    yield from (f"{key} of {_some(where[key])}" for key in sorted(where))
    if any(labels.ROLE in node.labels for node in work.lab.nodes.values()):
        yield "qos: a lab has none; with qos: lab every port is a lossless one"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
