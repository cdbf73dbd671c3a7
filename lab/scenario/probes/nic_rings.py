"""Rings of NICs that a diagnosis probes between, and the links and addresses of a NIC by its name.

A NIC is named ``h1`` where its host has only one, and ``h1:eth2`` in fabrics in which a host has several.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lab.model.overlay.tenancy import reach_of_ends
from lab.model.topology import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.model.topology import Endpoint, Link, Topology


def rings(topology: Topology) -> list[list[str]]:
    """NICs that can reach each other, two or more, in an order in which neighbours are at different leaves.

    No ring has two NICs of a host. Where hosts have several, there is a ring of the first ones, one of the second
    ones and so on: the rails of a rail-optimised fabric. A NIC that would be alone is with one of another host.
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


def links_of_nic(topology: Topology, nic: str) -> tuple[Link, ...]:
    """The links of a NIC: of ``h1`` all of the host's, and of a bond those of its members."""
    host, _, interface = nic.partition(":")
    links = tuple(topology.links_of(host))
    members = {end.interface for bond in _bonds(topology, host) if bond[0] == nic for end in bond[1]}
    own = members or {interface}
    return links if not interface else tuple(link for link in links if link.end_at(host).interface in own)


def host_of(nic: str) -> str:
    """The host of a NIC."""
    return nic.partition(":")[0]


def is_named(nic: str, interface: str) -> bool:
    """Whether a NIC's name is that of an interface of its host, or leaves it open."""
    return nic.partition(":")[2] in {"", interface}


def _placed(topology: Topology) -> Iterator[tuple[str, tuple[str, str], int]]:
    """Each NIC with what those share that it reaches, and which of its host's NICs there it is."""
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
    """The NICs of a host with the end of their first link: interfaces that are in no bond, and bonds."""
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
    """The first of each leaf, then the second of each, and so on."""
    most = max(map(len, leaves))
    return [nics[turn] for turn in range(most) for nics in leaves if turn < len(nics)]


def _companion(nic: str, others: Sequence[str]) -> list[str]:
    """The last NIC of another host, if there is any."""
    return [other for other in others if host_of(other) != host_of(nic)][-1:]


def of_each_leaf(topology: Topology, nics: Sequence[str]) -> list[str]:
    """One NIC of each leaf, of different hosts where that can be."""
    leaves: dict[str, list[str]] = {}
    for nic in nics:
        leaves.setdefault(_leaf(links_of_nic(topology, nic)[0], nic), []).append(nic)
    used = Counter[str]()
    found = []
    for candidates in leaves.values():
        found.append(min(candidates, key=lambda nic: used[host_of(nic)]))
        used[host_of(found[-1])] += 1
    return found
