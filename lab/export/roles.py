"""Which tier a node of a lab is of: what its label says, or its name, or how far it is from hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.export import labels
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.export.lab_reader import ReadLab

_BY_NAME: Final = (
    (re.compile("super|core", re.IGNORECASE), Role.SUPERSPINE),
    (re.compile("spine", re.IGNORECASE), Role.SPINE),
    (re.compile("leaf|tor", re.IGNORECASE), Role.LEAF),
)
_BY_DISTANCE: Final = (Role.HOST, Role.LEAF, Role.SPINE, Role.SUPERSPINE)


def roles_of(lab: ReadLab) -> dict[str, Role]:
    """The role of each node, in the order of the lab."""
    known = {role.value: role for role in Role}
    far = _distances(lab)
    found = {}
    for name, node in lab.nodes.items():
        if (said := node.labels.get(labels.ROLE)) in known:
            found[name] = known[said]
        elif node.is_router:
            by_name = next((role for pattern, role in _BY_NAME if pattern.search(name)), None)
            found[name] = by_name or _BY_DISTANCE[min(far.get(name, 1), len(_BY_DISTANCE) - 1)]
        else:
            found[name] = Role.HOST
    return found


def _distances(lab: ReadLab) -> Mapping[str, int]:
    """Links between a node and the nearest host; what reaches none is not in it."""
    beside: dict[str, set[str]] = {name: set() for name in lab.nodes}
    for link in lab.links:
        (one, _), (other, _) = link.ends
        beside[one].add(other)
        beside[other].add(one)
    far = {name: 0 for name, node in lab.nodes.items() if not node.is_router}
    front = list(far)
    while front:
        front = [near for name in front for near in _first_seen(beside[name], far, far[name] + 1)]
    return far


def _first_seen(names: set[str], far: dict[str, int], distance: int) -> list[str]:
    found = sorted(names - far.keys())
    far.update(dict.fromkeys(found, distance))
    return found
