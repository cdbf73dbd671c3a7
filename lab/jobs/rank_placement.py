"""The placement of ranks: one rank on each host, in the order of a rule, or one on each NIC of all hosts.

The addresses of all NICs of a host are local to its kernel, which delivers packets between them inside the host. rxe
takes no packet from the loopback interface, so that two NICs of one host cannot reach each other by RDMA. Ranks of
one host share memory instead, as GPUs of a server use NVLink; only a hierarchical collective has them.
"""

from __future__ import annotations

import random
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.model.addressing import NodePlan
    from lab.model.topology import Link, Topology
    from lab.rdma.measure import Nic


class PlacementRule(StrEnum):
    """The order in which ranks are put on NICs."""

    PACKED = "packed"
    """Fill one leaf, then the next: neighbouring ranks share a leaf."""
    SCATTERED = "scattered"
    """One host of each leaf in turn: neighbouring ranks share a leaf only if the other leaves have no hosts left."""
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


def refuse_shared_host(nics: Iterable[Nic]) -> None:
    """Raise UsageError if two NICs, one for each rank, are on the same host: no RDMA packet passes between them."""
    ranks: dict[str, int] = {}
    for number, nic in enumerate(nics):
        if nic.host in ranks:
            raise UsageError(
                f"ranks {ranks[nic.host]} and {number} are both on {nic.host}, "
                "whose NICs do not reach each other by RDMA",
                "name one NIC of each host",
            )
        ranks[nic.host] = number


def ranks_on_each_host(nics: Sequence[Nic]) -> int:
    """Return the number of ranks on each host of a hierarchical collective, in which a host's ranks are neighbours.

    UsageError if hosts have different numbers of ranks, or one, or if there is one host.
    """
    counts = [(host, len(list(each))) for host, each in groupby(nics, key=lambda nic: nic.host)]
    (first, wanted), *others = counts
    twice = next((host for index, (host, _) in enumerate(counts) if host in dict(counts[:index])), None)
    if twice is not None:
        raise UsageError(f"other ranks are between those of {twice}", "name the NICs of one host after the other")
    if not others:
        raise UsageError(f"all ranks are on {first}", f"use at least {2 * wanted} ranks, on two hosts")
    for host, count in others:
        if count != wanted:
            raise UsageError(
                f"{host} has {counted(count, 'rank')}, and {first} has {wanted}", "use as many ranks on each host"
            )
    if wanted == 1:
        raise UsageError(
            "a hierarchical collective needs several NICs in each host", "see topologies/rails.yaml, or use ring"
        )
    return wanted


def place_on_rails(nics: Sequence[Nic], ranks: int | None) -> tuple[Nic, ...]:
    """Return the NIC of each rank, host by host: rank r of a host is on its r-th NIC. None takes all NICs.

    ``nics`` has each host's NICs one after the other. UsageError if there are more ranks than NICs, or if hosts get
    different numbers of ranks.
    """
    wanted = len(nics) if ranks is None else ranks
    if wanted > len(nics):
        raise UsageError(
            f"{counted(wanted, 'rank')} need {counted(wanted, 'NIC')} with RDMA, and there are {len(nics)}",
            f"use at most {len(nics)} ranks, one for each NIC",
        )
    ranks_on_each_host(nics[:wanted])
    return tuple(nics[:wanted])


def place(
    nics: Sequence[Nic], leaf_of: Mapping[Nic, str], ranks: int | None, rule: PlacementRule, seed: int = 0
) -> tuple[Nic, ...]:
    """Return the NIC of each rank, rank 0 first, on a host of its own; None takes a NIC of each host.

    ``leaf_of`` is the switch at the other end of each NIC's link. UsageError if there are more ranks than hosts.
    """
    available = len({nic.host for nic in nics})
    wanted = available if ranks is None else ranks
    if wanted > available:
        raise UsageError(
            f"{counted(wanted, 'rank')} need {counted(wanted, 'host')} with RDMA, and there are {available}",
            f"use at most {available} ranks, one for each host",
        )
    return tuple(_ordered(nics, leaf_of, rule, seed)[:wanted])


def _ordered(nics: Sequence[Nic], leaf_of: Mapping[Nic, str], rule: PlacementRule, seed: int) -> list[Nic]:
    """Return one NIC of each host, in the order of the rule."""
    if rule is PlacementRule.RANDOM:
        return _of_own_hosts(random.Random(seed).sample(list(nics), len(nics)))  # noqa: S311 - not a secret
    leaves: dict[str, list[Nic]] = {}
    for nic in nics:
        leaves.setdefault(leaf_of[nic], []).append(nic)
    if rule is PlacementRule.PACKED:
        return _of_own_hosts(nic for leaf in leaves.values() for nic in leaf)
    return _in_turn(list(leaves.values()))


def _of_own_hosts(nics: Iterable[Nic]) -> list[Nic]:
    """Return the first NIC of each host."""
    first: dict[str, Nic] = {}
    for nic in nics:
        first.setdefault(nic.host, nic)
    return list(first.values())


def _in_turn(leaves: Sequence[Sequence[Nic]]) -> list[Nic]:
    """Return one NIC of each leaf in turn, the first of a host that has no rank yet."""
    taken: dict[str, Nic] = {}
    while True:
        before = len(taken)
        for leaf in leaves:
            free = next((nic for nic in leaf if nic.host not in taken), None)
            if free is not None:
                taken[free.host] = free
        if len(taken) == before:
            return list(taken.values())
