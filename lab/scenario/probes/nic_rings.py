"""Rings of NICs between which a diagnosis probes, and the links of a NIC by its name.

A NIC is named ``h1`` if its host has only one, and ``h1:eth2`` in fabrics in which hosts have several.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, product
from typing import TYPE_CHECKING

from lab.model.overlay.tenancy import reach_of_ends
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.model.topology import Endpoint, Link, Topology


def rings(topology: Topology) -> list[list[str]]:
    """Return rings of two or more NICs that can reach each other, ordered so that neighbours are at different leaves.

    A ring has one NIC of a host at most. If hosts have several NICs, the first ones form a ring, the second ones
    another, and so on: the rails of a rail-optimised fabric. A NIC that would be alone is paired with one of another
    host.
    """
    found: dict[tuple[tuple[str, str], int], dict[str, list[str]]] = {}
    for nic, reach, number in _placed(topology):
        leaf = links_of_nic(topology, nic)[0]
        found.setdefault((reach, number), {}).setdefault(_leaf(leaf, nic), []).append(nic)
    dealt = {key: _dealt(list(leaves.values())) for key, leaves in found.items()}
    complete = [
        nics if len(nics) > 1 else [*nics, *_companion(nics[0], dealt[reach, 0])]
        for (reach, _), nics in dealt.items()
    ]
    return [nics for nics in complete if len(nics) > 1]


def nic_pairs(topology: Topology) -> list[tuple[str, str]]:
    """Return all pairs of NICs of different hosts that can reach each other: those of each ring, and of leaks.

    Two tenants that leak their routes to each other are no ring: a third one can leak to only one of them.
    """
    pairs = chain(
        (pair for nics in rings(topology) for pair in combinations(nics, 2)),
        (pair for nics in _leaking(topology) for pair in product(*nics)),
    )
    return list(dict.fromkeys((one, other) for one, other in pairs if host_of(one) != host_of(other)))


def _leaking(topology: Topology) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the routed NICs of two tenants that leak their routes to each other."""
    routed: dict[str, list[str]] = {}
    for nic, (tenant, bridged), _ in _placed(topology):
        if not bridged:
            routed.setdefault(tenant, []).append(nic)
    for one, other in topology.overlay.leaks if topology.overlay else ():
        yield routed.get(one, []), routed.get(other, [])


def links_of_nic(topology: Topology, nic: str) -> tuple[Link, ...]:
    """Return the links of a NIC: for ``h1`` all of the host's, for a bond those of its members."""
    host, _, interface = nic.partition(":")
    links = tuple(topology.links_of(host))
    members = {end.interface for bond in _bonds(topology, host) if bond[0] == nic for end in bond[1]}
    own = members or {interface}
    return links if not interface else tuple(link for link in links if link.end_at(host).interface in own)


def host_of(nic: str) -> str:
    """Return the host of a NIC."""
    return nic.partition(":")[0]


def is_named(nic: str, interface: str) -> bool:
    """Return whether a NIC's name denotes an interface of its host, or no interface at all."""
    return nic.partition(":")[2] in {"", interface}


def _placed(topology: Topology) -> Iterator[tuple[str, tuple[str, str], int]]:
    """Yield each NIC with its reachability group, and its number among its host's NICs in that group."""
    reach = reach_of_ends(topology)
    nics = {host.name: dict(_nics(topology, host.name)) for host in topology.having(Role.HOST)}
    several = any(len(ends) > 1 for ends in nics.values())
    for host, ends in nics.items():
        numbers: Counter[tuple[str, str]] = Counter()
        for nic, end in ends.items():
            if topology.overlay is None or end in reach:
                key = reach.get(end, ("", ""))
                yield nic if several else host, key, numbers[key]
                numbers[key] += 1


def _nics(topology: Topology, host: str) -> Iterator[tuple[str, Endpoint]]:
    """Yield a host's NICs (bonds, and interfaces in no bond) with the end of their first link."""
    bond_of = {end: (name, members[0]) for name, members in _bonds(topology, host) for end in members}
    for link in topology.links_of(host):
        end = link.end_at(host)
        yield bond_of.get(end, (str(end), end))


def _bonds(topology: Topology, host: str) -> list[tuple[str, tuple[Endpoint, ...]]]:
    bonds = topology.overlay.bonds if topology.overlay else ()
    return [(str(bond.end), bond.members) for bond in bonds if bond.end.node == host]


def _leaf(link: Link, nic: str) -> str:
    return link.other(link.end_at(host_of(nic))).node


def _dealt(leaves: Sequence[Sequence[str]]) -> list[str]:
    """Return the first NIC of each leaf, then the second of each, and so on."""
    most = max(map(len, leaves))
    return [nics[turn] for turn in range(most) for nics in leaves if turn < len(nics)]


def _companion(nic: str, others: Sequence[str]) -> list[str]:
    """Return the last NIC of another host, if there is any."""
    return [other for other in others if host_of(other) != host_of(nic)][-1:]


def of_each_leaf(topology: Topology, nics: Sequence[str]) -> list[str]:
    """Return one NIC of each leaf, of different hosts if possible."""
    leaves: dict[str, list[str]] = {}
    for nic in nics:
        leaves.setdefault(_leaf(links_of_nic(topology, nic)[0], nic), []).append(nic)
    used = Counter[str]()
    found = []
    for candidates in leaves.values():
        found.append(min(candidates, key=lambda nic: used[host_of(nic)]))
        used[host_of(found[-1])] += 1
    return found
