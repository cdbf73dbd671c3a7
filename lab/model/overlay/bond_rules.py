"""Rules of bonds: their hosts, leaves and networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.ends import end_of
from lab.model.values.suggest import suggest
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.overlay.intent import Overlay
    from lab.model.overlay.overlay_spec import BondSpec, OverlaySpec
    from lab.model.topology import Endpoint, Link, Topology


def check_bonds(topology: Topology, spec: OverlaySpec) -> Iterator[SpecFinding]:
    """Yield the findings of every rule about bonds."""
    numbers: dict[int, int] = {}
    taken: dict[Endpoint, int] = {}
    for place, bond in enumerate(spec.bonds):
        path = ("overlay", "bonds", place)
        if bond.number in numbers:
            message = f"{bond.number} is bonds[{numbers[bond.number]}] already"
            yield SpecFinding((*path, "number"), message, "choose another number")
        numbers.setdefault(bond.number, place)
        members = []
        for position, text in enumerate(bond.members):
            end = end_of(topology, text)
            if isinstance(end, SpecFinding):
                yield end._replace(path=(*path, "members", position))
            elif end in taken:
                message = f"{end} is of bonds[{taken[end]}] already"
                yield SpecFinding((*path, "members", position), message, "name it once")
            else:
                taken[end] = place
                members.append(end)
        if len(members) == len(bond.members):
            yield from _is_one_segment(topology, path, bond, members)
    if topology.overlay is not None:
        yield from _are_in_networks(spec, topology.overlay)


def _is_one_segment(
    topology: Topology, path: tuple[str | int, ...], bond: BondSpec, members: list[Endpoint]
) -> Iterator[SpecFinding]:
    hosts = list(dict.fromkeys(end.node for end in members))
    if len(hosts) > 1:
        message = f"{members[0]} and {hosts[1]}'s are of two hosts"
        yield SpecFinding((*path, "members"), message, "bond the interfaces of one host")
        return
    links = [_link_at(topology, end) for end in members]
    leaves = list(dict.fromkeys(link.other(end).node for link, end in zip(links, members, strict=True)))
    if len(leaves) == 1:
        message = f"are all on {leaves[0]}: no other leaf has the segment"
        yield SpecFinding((*path, "members"), message, "use links to two leaves or more, or omit the bond")
    elif bond.forwarder is not None and bond.forwarder not in leaves:
        remedy = suggest(bond.forwarder, leaves, f"name {leaves[0]}")
        yield SpecFinding((*path, "forwarder"), f"{bond.forwarder} is no leaf of it", remedy)
    if len({link.mtu for link in links}) > 1:
        message = f"have {' and '.join(str(link.mtu) for link in links)} bytes of MTU"
        yield SpecFinding((*path, "members"), message, "give all links of a bond the same mtu")


def _link_at(topology: Topology, end: Endpoint) -> Link:
    return next(link for link in topology.links_of(end.node) if end in link.ends)


def _are_in_networks(spec: OverlaySpec, overlay: Overlay) -> Iterator[SpecFinding]:
    attached = {attachment.end for network in overlay.networks for attachment in network.attachments}
    places = {bond.number: place for place, bond in reversed(list(enumerate(spec.bonds)))}
    for bond in overlay.bonds:
        if bond.end not in attached:
            path = ("overlay", "bonds", places[bond.number], "members")
            yield SpecFinding(path, f"{bond.end} is in no network", "name it in a network's untagged or tagged")
