"""The placement of ranks: one rank on each NIC, in the order of a rule."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.model.addressing import NodePlan
    from lab.model.topology import Link, Topology
    from lab.rdma.measure import Nic


class PlacementRule(StrEnum):
    """The order in which ranks are put on NICs."""

    PACKED = "packed"
    """Fill one leaf, then the next: neighbouring ranks share a leaf."""
    SCATTERED = "scattered"
    """One NIC of each leaf in turn: neighbouring ranks are on different leaves until only one leaf has NICs left."""
    RANDOM = "random"
    """A random order, the same for the same seed."""


def nic_links(topology: Topology, plan: Mapping[str, NodePlan], nic: Nic) -> tuple[Link, ...]:
    """Return the links of a NIC: one, or those of all members of a bond."""
    interfaces = plan[nic.host].interfaces
    members = {name for name, interface in interfaces.items() if nic.interface in {name, interface.bond}}
    return tuple(link for link in topology.links_of(nic.host) if link.end_at(nic.host).interface in members)


def leaf_of_nic(topology: Topology, plan: Mapping[str, NodePlan], nic: Nic) -> str:
    """Return the switch at the other end of a NIC's link, the first one of a bond's."""
    link = nic_links(topology, plan, nic)[0]
    return link.other(link.end_at(nic.host)).node


def place(
    nics: Sequence[Nic], leaf_of: Mapping[Nic, str], ranks: int | None, rule: PlacementRule, seed: int = 0
) -> tuple[Nic, ...]:
    """Return the NIC of each rank, rank 0 first; None takes all NICs.

    ``leaf_of`` is the switch at the other end of each NIC's link. UsageError if there are more ranks than NICs.
    """
    wanted = len(nics) if ranks is None else ranks
    if wanted > len(nics):
        raise UsageError(
            f"{counted(wanted, 'rank')} need {wanted} RDMA NICs, and there are {len(nics)}",
            f"use --ranks {len(nics)} or less, one for each NIC",
        )
    return tuple(_ordered(nics, leaf_of, rule, seed)[:wanted])


def _ordered(nics: Sequence[Nic], leaf_of: Mapping[Nic, str], rule: PlacementRule, seed: int) -> list[Nic]:
    if rule is PlacementRule.RANDOM:
        return random.Random(seed).sample(list(nics), len(nics))  # noqa: S311 - not a secret
    leaves: dict[str, list[Nic]] = {}
    for nic in nics:
        leaves.setdefault(leaf_of[nic], []).append(nic)
    if rule is PlacementRule.PACKED:
        return [nic for leaf in leaves.values() for nic in leaf]
    rows = max((len(leaf) for leaf in leaves.values()), default=0)
    return [leaf[row] for row in range(rows) for leaf in leaves.values() if row < len(leaf)]
