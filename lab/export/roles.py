"""The tier of each node of a lab, by its label, its name, or its distance from hosts; and its pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.errors import InvalidInput
from lab.export import labels
from lab.model.spec import MAX_POD
from lab.model.topology import Role
from lab.model.values.yamltext import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.errors import Problem
    from lab.export.lab_reader import ReadLab, ReadLink

_BY_NAME: Final = (
    (re.compile("super|core", re.IGNORECASE), Role.SUPERSPINE),
    (re.compile("spine", re.IGNORECASE), Role.SPINE),
    (re.compile("leaf|tor", re.IGNORECASE), Role.LEAF),
)
_BY_DISTANCE: Final = (Role.HOST, Role.LEAF, Role.SPINE, Role.SUPERSPINE)
_IN_PODS: Final = {Role.SPINE, Role.LEAF}
ROLES: Final = ", ".join(Role)
LABELS: Final = f"label nodes with {labels.ROLE} ({ROLES}) and, below super-spines, {labels.POD} (1 to {MAX_POD})"
"""The remedy for a lab with a wrong guess of roles."""


def roles_of(lab: ReadLab) -> dict[str, Role]:
    """Return the role of each node, in the order of the lab; raise InvalidInput with every invalid role label."""
    known = {role.value: role for role in Role}
    if problems := list(_wrong_roles(lab, known)):
        raise InvalidInput(str(lab.file), problems)
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


def _wrong_roles(lab: ReadLab, known: Mapping[str, Role]) -> Iterator[Problem]:
    for name, node in lab.nodes.items():
        said = node.labels.get(labels.ROLE, next(iter(known)))
        if said not in known:
            path = lab.label_path(name, labels.ROLE)
            yield lab.problem(path, f"{show(said)} is no role", f"choose {ROLES}")


def why(lab: ReadLab, node: str, role: Role) -> str:
    """Return the reason why ``roles_of`` assigned ``role`` to ``node``."""
    read = lab.nodes[node]
    if labels.ROLE in read.labels:
        return f"its label {labels.ROLE} says so"
    if not read.is_router:
        return "no frr.conf among its binds, and no image called frr"
    if any(pattern.search(node) for pattern, _ in _BY_NAME):
        return "by its name"
    return f"{role.tier} links from the nearest host" if role.tier > 1 else "a router with no tier in its name"


def _distances(lab: ReadLab) -> Mapping[str, int]:
    """Return the number of links between a node and the nearest host; unconnected nodes are missing."""
    beside = _neighbours(lab.nodes, lab.links)
    far = {name: 0 for name, node in lab.nodes.items() if not node.is_router}
    front = list(far)
    while front:
        front = [near for name in front for near in _first_seen(beside[name], far, far[name] + 1)]
    return far


def _neighbours(nodes: Iterable[str], links: Iterable[ReadLink]) -> dict[str, set[str]]:
    beside: dict[str, set[str]] = {name: set() for name in nodes}
    for link in links:
        (one, _), (other, _) = link.ends
        beside[one].add(other)
        beside[other].add(one)
    return beside


def _first_seen(names: set[str], far: dict[str, int], distance: int) -> list[str]:
    found = sorted(names - far.keys())
    far.update(dict.fromkeys(found, distance))
    return found


def pods_of(lab: ReadLab, roles: Mapping[str, Role], links: Sequence[ReadLink]) -> dict[str, int]:
    """Return the pod of each node that has one: by its label or, below super-spines, by ``links`` to other nodes.

    Parts of a fabric that are joined only by super-spines are separate pods. A part without a label gets the lowest
    unused number, in the order of the lab. InvalidInput is raised with every invalid pod label.
    """
    pods = _labelled_pods(lab)
    parts = list(_without_superspines(lab, roles, links))
    if len(parts) == 1 or Role.SUPERSPINE not in roles.values():
        return pods
    used = set(pods.values())
    free = (number for number in range(1, len(lab.nodes) + 1) if number not in used)
    for members in parts:
        labelled = {pods[name] for name in members if name in pods}
        if len(labelled) < 2:
            pod = labelled.pop() if labelled else next(free)
            pods |= {name: pod for name in members if name not in pods}
    return pods


def _labelled_pods(lab: ReadLab) -> dict[str, int]:
    pods, problems = {}, []
    for name, node in lab.nodes.items():
        said = node.labels.get(labels.POD, "")
        if re.fullmatch("[1-9][0-9]{0,2}", said, re.ASCII):
            pods[name] = int(said)
        elif labels.POD in node.labels:
            path = lab.label_path(name, labels.POD)
            problems.append(lab.problem(path, f"{show(said)} is no pod", f"choose 1 to {MAX_POD}"))
    if problems:
        raise InvalidInput(str(lab.file), problems)
    return pods


def _without_superspines(lab: ReadLab, roles: Mapping[str, Role], links: Sequence[ReadLink]) -> Iterator[list[str]]:
    """Yield the leaves and spines of each part of the fabric that is connected without super-spines."""
    linked = {node for link in links for node, _ in link.ends}
    inside = {name for name in lab.nodes if name in linked and roles[name] in _IN_PODS}
    beside = _neighbours(inside, (link for link in links if all(node in inside for node, _ in link.ends)))
    seen: dict[str, int] = {}
    for name in lab.nodes:
        if name not in inside or name in seen:
            continue
        members = front = _first_seen({name}, seen, 0)
        while front:
            front = [near for each in front for near in _first_seen(beside[each], seen, 0)]
            members = members + front
        yield members
