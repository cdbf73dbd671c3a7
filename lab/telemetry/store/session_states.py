"""Sessions of routing protocols in a recording: the kind of their events, and the state of one that is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import Underlay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology

UP: Final[Mapping[str, str]] = {"bgp": "Established", "bfd": "up", "ospf": "Full", "ospf6": "Full", "isis": "Up"}
"""The state of a session that is up, by the kind of its events; BFD only watches links, the others bring routes."""
DOWN: Final = "Down"
"""The state of an OSPF or IS-IS adjacency that its router no longer lists."""
TITLES: Final[Mapping[str, str]] = {
    "bgp": "BGP session",
    "ospf": "OSPFv2 adjacency",
    "ospf6": "OSPFv3 adjacency",
    "isis": "IS-IS adjacency",
}
"""What a session that brings routes is called, by the kind of its events."""
_OF_UNDERLAY: Final = {Underlay.OSPF: ("ospf", "ospf6"), Underlay.ISIS: ("isis",)}


def kinds_of(topology: Topology) -> tuple[str, ...]:
    """The kinds of sessions by which the switches of a topology learn routes; none where they only bridge."""
    bgp = ("bgp",) if topology.has_bgp else ()
    return (*bgp, *_OF_UNDERLAY.get(topology.routing.underlay, ()))
