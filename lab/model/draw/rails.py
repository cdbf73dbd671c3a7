"""The rails of a fabric: hosts have several NICs, and each leaf connects only NICs of one number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Endpoint, Topology


def rails_of_ends(topology: Topology) -> Mapping[Endpoint, int]:
    """Return the rail of each host's end, from 1: the number of its interface. Empty for a fabric without rails.

    A fabric has rails if no leaf has NICs of two numbers and no host has two NICs on one leaf. Bonds are no rails:
    their NICs are one link to two leaves.
    """
    if topology.overlay is not None and topology.overlay.bonds:
        return {}
    rails: dict[Endpoint, int] = {}
    of_leaf: dict[str, int] = {}
    for host in topology.hosts:
        for link in topology.links_of(host.name):
            end = link.end_at(host.name)
            number = int(re.sub(r"\D", "", end.interface) or 0)
            if of_leaf.setdefault(link.other(end).node, number) != number:
                return {}
            rails[end] = number
    leaves = {(end.node, rail) for end, rail in rails.items()}
    several = len(set(rails.values())) > 1 and len(leaves) == len(rails)
    return rails if several and _spread(topology) else {}


def _spread(topology: Topology) -> bool:
    """Return whether each NIC of a host is on a separate leaf."""
    for host in topology.hosts:
        links = topology.links_of(host.name)
        if len({link.other(link.end_at(host.name)).node for link in links}) < len(links):
            return False
    return True
