"""Capture points of a running fabric for the links that users name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kernel.packets.live_capture import Point
from lab.model.topology import Role
from lab.model.values.link_selection import choose_links
from lab.wire.nic_note import NicNote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.backends.backend import Fabric
    from lab.model.topology import Link


def points_of(fabric: Fabric, links: Iterable[str]) -> list[Point]:
    """Return one end of each link; UsageError if a name matches no link."""
    return [
        Point(
            namespace=fabric.namespace(end.node),
            interface=end.interface,
            label=str(end),
            rate=link.rate,
            peer=str(link.other(end)),
            nic=_nic_of(fabric, link),
        )
        for end, link in choose_links(fabric.topology, links)
    ]


def _nic_of(fabric: Fabric, link: Link) -> NicNote | None:
    """Return the congestion control of the host's end; None without one, or without an emulated port."""
    for end in link.ends:
        if fabric.topology.node(end.node).role is Role.HOST and end.node in fabric.qos:
            interfaces = fabric.plan[end.node].interfaces
            member = interfaces[end.interface]
            address = interfaces.get(member.bond, member).address
            cc = fabric.qos[end.node].ports[end.interface].cc
            return None if address is None else NicNote.of(str(end), str(address.ip), cc)
    return None
