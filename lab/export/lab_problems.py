"""Report errors of an imported lab at places of its own file: the user never sees the generated topology."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.errors import InvalidInput
from lab.export import labels
from lab.export.roles import LABELS, why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.errors import Problem
    from lab.export.lab_reader import ReadLab, ReadLink
    from lab.model.topology import Role
    from lab.model.values.yamltext import Path

_SHOWN: Final = 4
_PLACE: Final = re.compile(
    r"nodes\.(?P<node>[\w-]+)(?:\.(?P<key>\w+))?"
    r"|links\[(?P<link>[0-9]+)\](?:\.(?P<setting>\w+))?.*"
    r"|frr\.(?P<switch>[\w-]+).*"
    r"|defaults\.(?P<usual>\w+)"
    r"|(?P<whole>routing|addressing|description)(?:\.(?P<part>[\w.]+))?"
    r"|(?P<name>name)"
)
_LINK_LABELS: Final = {"rate": labels.RATE, "delay": labels.DELAY}
_LABELS_OF: Final = {"routing": labels.ROUTING, "addressing": labels.ADDRESSING, "description": labels.DESCRIPTION}


def nothing_left(lab: ReadLab, roles: Mapping[str, Role], strangers: Sequence[ReadLink]) -> InvalidInput:
    """Return the error for a lab without usable links; ``strangers`` join tiers that are not neighbours."""
    if strangers:
        remedy = f"hosts link to leaves, leaves to spines, spines to super-spines: {LABELS}"
        problems = [lab.problem(("topology", "links"), "no link joins two neighbouring tiers", remedy)]
        unsure = dict.fromkeys(node for link in strangers for node, _ in link.ends)
        problems += [_taken_for(lab, node, roles[node]) for node in unsure]
    else:
        remedy = "rocelab takes nodes of kind linux, with FRR as switches, and the links between them"
        problems = [lab.problem(("topology", "nodes"), "nothing of it can be a fabric", remedy)]
        problems += [lab.problem(each.path, each.reason, "it is left out") for each in lab.left_out]
    if (more := len(problems) - 1 - _SHOWN) > 0:
        problems[_SHOWN + 1 :] = [lab.problem(("topology", "nodes"), f"and {more} more", "for the same reasons")]
    return InvalidInput(str(lab.file), problems)


def _taken_for(lab: ReadLab, node: str, role: Role) -> Problem:
    message = f"is treated as a {role}: {why(lab, node, role)}"
    return lab.problem(("topology", "nodes", node), message, "where that is wrong, label it")


def at_the_lab(
    lab: ReadLab,
    problems: Sequence[Problem],
    names: Mapping[str, str],
    links: Sequence[ReadLink],
    roles: Mapping[str, Role],
) -> InvalidInput:
    """Return the error with ``problems`` of the topology, at the places of the lab's file that cause them.

    ``names`` are the topology's names of the lab's nodes, and ``links`` the lab's links in the topology's order.
    """
    nodes = {name: node for node, name in names.items()}
    found = []
    for problem in problems:
        match = _PLACE.fullmatch(problem.path)
        told = lab.problem(_place(match, nodes, links) if match else (), problem.message, problem.remedy)
        node = nodes.get(match["node"] or "") if match and not match["key"] else None
        if node:
            found.append(_taken_for(lab, node, roles[node]))
        if node or not problem.path:
            told = replace(told, remedy=f"{told.remedy}, or {LABELS}")
        found.append(told)
    return InvalidInput(str(lab.file), sorted(found, key=lambda problem: (problem.line, problem)))


def _place(match: re.Match[str], nodes: Mapping[str, str], links: Sequence[ReadLink]) -> Path:
    """Return the place in the lab's file that produced the matched place of the topology."""
    if node := nodes.get(match["node"] or match["switch"] or ""):
        return ("topology", "nodes", node)
    if match["link"]:
        return _link_place(links[int(match["link"])], match["setting"])
    if match["usual"]:
        return _link_place(next(link for link in links if _states(link, match["usual"])), match["usual"])
    if match["whole"]:
        label = _LABELS_OF[match["whole"]] + (match["part"] or "")
        return ("topology", "defaults", "labels", label)
    return ("name",)


def _states(link: ReadLink, setting: str) -> bool:
    return bool(link.mtu) if setting == "mtu" else _LINK_LABELS[setting] in link.labels


def _link_place(link: ReadLink, setting: str | None) -> Path:
    place: Path = ("topology", "links", link.number)
    label = _LINK_LABELS.get(setting or "")
    return (*place, "labels", label) if label else (*place, "mtu") if setting == "mtu" else place
