"""A deployed lab of containerlab as the fabric that it is: names and links are its own, and nothing is planned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.export import labels
from lab.export.from_lab import plain_name
from lab.export.roles import roles_of
from lab.model.topology import MAX_FABRIC_NAME, MAX_NODE_NAME, Bfd, Endpoint, Link, Node, Routing, Topology
from lab.units import parse_rate, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.export.lab_reader import ReadLab, ReadLink

RATE: Final = 10**9
"""Bit/s of a link of which nothing is said, as a fabric's are; a veth itself has no rate."""
MTU: Final = 9500
"""Bytes, which containerlab gives a link of which nothing is said."""
_NODE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NODE_NAME - 1}}}", re.ASCII)


def as_topology(lab: ReadLab) -> tuple[Topology, list[str]]:
    """The lab as a topology, and what of it is left out, a line each.

    UsageError when no node is left, or one has a name that no namespace of ours can have.
    """
    notes = list(lab.left_out)
    if not lab.nodes:
        raise UsageError(f"nothing of lab {lab.name} can be adopted", f"it has to be of kind linux; {notes[0]}")
    for name in lab.nodes:
        if not _NODE.fullmatch(name):
            raise UsageError(f"node {name!r} of lab {lab.name} cannot be adopted", _rule())
    nodes = tuple(Node(name, role) for name, role in roles_of(lab).items())
    links = tuple(_links(lab, notes))
    return Topology(plain_name(lab.name, MAX_FABRIC_NAME), nodes, links, Routing(bfd=_bfd(lab))), notes


def _rule() -> str:
    return f"names have letters, digits, - and _, and are at most {MAX_NODE_NAME} long"


def _links(lab: ReadLab, notes: list[str]) -> Iterator[Link]:
    for link in lab.links:
        (one, _), (other, _) = link.ends
        if one == other:
            notes.append(f"link {link}: both its ends are at {one}")
        else:
            yield _link(link)


def _link(link: ReadLink) -> Link:
    here, there = (Endpoint(*end) for end in link.ends)
    rate, delay = link.labels.get(labels.RATE), link.labels.get(labels.DELAY)
    try:
        said = parse_rate(rate) if rate else RATE, link.mtu or MTU, parse_time(delay) if delay else 0.0
    except ValueError as error:
        raise UsageError(f"link {link} has a label that means nothing", str(error)) from error
    return Link(here, there, *said)


def _bfd(lab: ReadLab) -> Bfd:
    """On where every switch is one that rocelab has exported with it: others have it as their files say, or not."""
    routers = [node for node in lab.nodes.values() if node.is_router]
    exported = bool(routers) and all(labels.ROLE in node.labels for node in routers)
    return Bfd(enabled=exported and lab.labels.get(f"{labels.BFD}enabled") != "false")
