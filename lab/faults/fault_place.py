"""Places of faults: nodes, ports and links, parsed from their names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.model.values.link_selection import choose_links, choose_ports
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.model.topology import Endpoint, Node, Topology


class Form(Enum):
    """The form of a kind's place, with an example for users."""

    LINK = "leaf1--spine1, both directions, or leaf1:swp1, what leaves leaf1 there"
    END = "leaf1:swp1, one end of a link; leaf1--spine1 is its end at leaf1"
    PORTS = "leaf1:swp1, leaf1 for all of its ports, leaf for all of a tier, or several with commas"
    NIC = "h1, or h1:eth2 where a host has several"
    SWITCH = "leaf1"
    HOST = "h1"
    NODE = "leaf1 or h1"


@dataclass(frozen=True, slots=True)
class FaultPlace:
    """The place of a fault: a node and link ends. For a link, each of its two ends stands for what it sends."""

    name: str
    node: str
    ends: tuple[Endpoint, ...] = ()

    def __str__(self) -> str:
        return self.name


def find_place(topology: Topology, form: Form, name: str) -> FaultPlace:
    """Return the place that ``name`` denotes for a form. Raises UsageError if there is none, or more than one."""
    if form in {Form.SWITCH, Form.HOST, Form.NODE}:
        return FaultPlace(name, _node(topology, form, name).name)
    if form is Form.PORTS:
        ends = choose_ports(topology, name.split(","))
        return FaultPlace(name, ends[0].node, ends)
    if form is Form.NIC:
        end = _nic(topology, name)
        return FaultPlace(name, end.node, (end,))
    return _link(topology, form, name)


def _node(topology: Topology, form: Form, name: str) -> Node:
    fitting = {Form.SWITCH: topology.switches, Form.NODE: topology.nodes}.get(form, topology.hosts)
    for node in fitting:
        if node.name == name:
            return node
    names = [node.name for node in fitting]
    what = form.name.lower()
    raise UsageError(f"no {what} {name!r} in fabric {topology.name}", suggest(name, names, _some(names)))


def _nic(topology: Topology, name: str) -> Endpoint:
    node = _node(topology, Form.HOST, name.partition(":")[0])
    ends = choose_ports(topology, [name])
    if len(ends) > 1:
        raise UsageError(f"{node.name} has several NICs", f"say which: {_some([str(end) for end in ends])}")
    return ends[0]


def _link(topology: Topology, form: Form, name: str) -> FaultPlace:
    chosen = choose_links(topology, [name])
    if len(chosen) != 1:
        raise UsageError(
            f"{name} means {len(chosen)} links", f"name one: {_some([str(each.end) for each in chosen])}"
        )
    (choice,) = chosen
    both = form is Form.LINK and "--" in name
    ends = (choice.end, choice.link.other(choice.end)) if both else (choice.end,)
    return FaultPlace(name, choice.end.node, ends)


def _some(names: Sequence[str], most: int = 12) -> str:
    return f"there is {', '.join(names[:most])}{', ...' if len(names) > most else ''}"
