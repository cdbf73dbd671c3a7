"""A deployed containerlab lab as a fabric with the lab's own names and links; nothing is planned."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from lab.errors import InvalidInput, Problem, UsageError
from lab.export import labels
from lab.export.from_lab import plain_name
from lab.export.roles import roles_of
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.presets import PRESETS, suggest_profile
from lab.model.qos.profile import QosIntent
from lab.model.qos.qos_rules import check_numbers
from lab.model.topology import (
    DELAY_RANGE,
    MAX_FABRIC_NAME,
    MAX_NODE_NAME,
    RATE_RANGE,
    Bfd,
    Endpoint,
    Link,
    Node,
    Routing,
    Topology,
)
from lab.units import format_rate, format_time, parse_rate, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.export.lab_reader import ReadLab, ReadLink

_Number = TypeVar("_Number", int, float)

RATE: Final = 10**9
"""The rate in bit/s of links without a label, like a fabric's default; a veth itself has no rate."""
MTU: Final = 9500
"""Bytes: containerlab's default MTU of links."""
_NODE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NODE_NAME - 1}}}", re.ASCII)


def as_topology(lab: ReadLab, rate: str | None = None) -> tuple[Topology, list[str]]:
    """Return the lab as a topology, and a note for each part that is left out. ``rate`` is for links without a label.

    UsageError is raised if no node is left, if a node's name does not suit a namespace, or for an invalid rate.
    """
    unsaid = RATE if rate is None else _rate(rate)
    notes = [str(each) for each in lab.left_out]
    if not lab.nodes:
        raise UsageError(f"nothing of lab {lab.name} can be adopted", f"it has to be of kind linux; {notes[0]}")
    for name in lab.nodes:
        if not _NODE.fullmatch(name):
            raise UsageError(f"node {name!r} of lab {lab.name} cannot be adopted", _rule())
    nodes = tuple(Node(name, role) for name, role in roles_of(lab).items())
    links = tuple(_links(lab, notes, unsaid))
    return Topology(
        name=plain_name(lab.name, MAX_FABRIC_NAME), nodes=nodes, links=links, routing=Routing(bfd=_bfd(lab))
    ), notes


def _rate(text: str) -> int:
    try:
        return _in_range(parse_rate(text), RATE_RANGE, format_rate)
    except ValueError as error:
        raise UsageError(f"--rate {text} is no rate", str(error)) from error


def _in_range(number: _Number, bounds: tuple[_Number, _Number], show: Callable[[float], str]) -> _Number:
    low, high = bounds
    if not low <= number <= high:
        raise ValueError(f"{show(number)} is out of range; choose {show(low)} to {show(high)}")
    return number


def furnished(topology: Topology, qos: str | None, *, rdma: bool) -> Topology:
    """Return the topology with lossless ports by a preset, and RDMA devices on its hosts.

    Raises UsageError for an unknown preset, and InvalidInput if the preset does not fit a link.
    """
    nodes = tuple(replace(node, rdma=rdma and not node.role.is_switch) for node in topology.nodes)
    topology = replace(topology, nodes=nodes)
    if qos is None:
        return topology
    if qos not in PRESETS:
        known = f"there is {', '.join(PRESETS)}"
        raise UsageError(f"--qos {qos} is no preset", suggest_profile(qos, PRESETS, known))
    topology = replace(topology, qos=QosIntent(fabric=(qos,)))
    if wrong := {Problem("", found.message, found.remedy) for found in check_numbers(topology, HOST_REACTION)}:
        raise InvalidInput(f"--qos {qos}", sorted(wrong))
    return topology


def _rule() -> str:
    return f"names have letters, digits, - and _, and are at most {MAX_NODE_NAME} long"


def _links(lab: ReadLab, notes: list[str], unsaid: int) -> Iterator[Link]:
    for link in lab.links:
        (one, _), (other, _) = link.ends
        if one == other:
            notes.append(f"link {link}: both its ends are at {one}")
        else:
            yield _link(link, unsaid)


def _link(link: ReadLink, unsaid: int) -> Link:
    here, there = (Endpoint(*end) for end in link.ends)
    rate, delay = link.labels.get(labels.RATE), link.labels.get(labels.DELAY)
    try:
        carries = _in_range(parse_rate(rate), RATE_RANGE, format_rate) if rate else unsaid
        takes = _in_range(parse_time(delay), DELAY_RANGE, format_time) if delay else 0.0
    except ValueError as error:
        raise UsageError(f"link {link} has a label that means nothing", str(error)) from error
    return Link(a=here, b=there, rate=carries, mtu=link.mtu or MTU, delay=takes)


def _bfd(lab: ReadLab) -> Bfd:
    """Return BFD's settings: on if rocelab exported every switch and BFD is not disabled.

    Other labs configure it in files.
    """
    routers = [node for node in lab.nodes.values() if node.is_router]
    exported = bool(routers) and all(labels.ROLE in node.labels for node in routers)
    return Bfd(enabled=exported and lab.labels.get(f"{labels.BFD}enabled") != "false")
