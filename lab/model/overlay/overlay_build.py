"""Build the overlay of a fabric from its ``overlay`` section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.ends import Bonds, find_end
from lab.model.overlay.intent import Attachment, Bond, Border, Flooding, Network, Overlay, Tenant, default_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.model.overlay.overlay_spec import BondSpec, NetworkSpec, OverlaySpec
    from lab.model.topology import Endpoint, Topology


def make_overlay(spec: OverlaySpec, topology: Topology) -> Overlay:
    """Return the overlay on ``topology``; ends that do not exist are left out."""
    bonds = tuple(_bonds(spec.bonds, topology))
    by_end = bonds_by_member(bonds)
    return Overlay(
        tenants=tuple(
            Tenant(name=name, l3vni=tenant.l3vni or 0, rd=tenant.rd or 0, rt=tenant.rt or "")
            for name, tenant in spec.tenants.items()
        ),
        networks=tuple(
            _network(name, network, topology, by_end, spec.flooding) for name, network in spec.networks.items()
        ),
        design=spec.design,
        gateway_mac=spec.gateway_mac,
        leaks=tuple((pair[0], pair[1]) for pair in spec.leaks),
        border=tuple(
            Border(end, each.asn, tuple(each.prefixes))
            for each in spec.border
            for end in [find_end(topology, each.router)]
            if end is not None
        ),
        bonds=bonds,
        flooding=spec.flooding,
    )


def _bonds(specs: Sequence[BondSpec], topology: Topology) -> Iterator[Bond]:
    taken: set[Endpoint] = set()
    for spec in specs:
        found = (find_end(topology, text) for text in spec.members)
        members = tuple(dict.fromkeys(end for end in found if end is not None and end not in taken))
        taken.update(members)
        if members:
            yield Bond(spec.number, members, spec.forwarder or "")


def bonds_by_member(bonds: Iterable[Bond]) -> Bonds:
    """Return the end of each bond, by the ends that are its members."""
    return {member: bond.end for bond in bonds for member in bond.members}


def _network(name: str, spec: NetworkSpec, topology: Topology, bonds: Bonds, flooding: Flooding) -> Network:
    ends = [(text, False) for text in spec.untagged] + [(text, True) for text in spec.tagged]
    found = [(find_end(topology, text, bonds), tagged) for text, tagged in ends]
    return Network(
        name=name,
        vlan=spec.vlan,
        l2vni=spec.l2vni or 0,
        tenant=spec.tenant or "",
        subnets=tuple(spec.subnets),
        gateways=tuple(spec.gateways),
        attachments=tuple(Attachment(end, tagged) for end, tagged in found if end is not None),
        rd=spec.rd or 0,
        rt=spec.rt or "",
        group=(spec.group or default_group(spec.l2vni or 0)) if flooding is Flooding.MULTICAST else None,
    )
