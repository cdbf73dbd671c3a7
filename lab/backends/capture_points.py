"""Capture points of a running fabric for the links that users name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.kernel.packets.live_capture import Point
from lab.model.values.link_selection import choose_links

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.backends.backend import Fabric


def points_of(fabric: Fabric, links: Iterable[str]) -> list[Point]:
    """Return one end of each link; UsageError if a name matches no link."""
    return [
        Point(
            namespace=fabric.namespace(end.node),
            interface=end.interface,
            label=str(end),
            rate=link.rate,
            peer=str(link.other(end)),
        )
        for end, link in choose_links(fabric.topology, links)
    ]
