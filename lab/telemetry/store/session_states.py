"""Sessions of routing protocols in a recording: the kinds of their events, and the state of one that is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.topology import Underlay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology

UP: Final[Mapping[str, str]] = {"bgp": "Established", "bfd": "up", "ospf": "Full", "ospf6": "Full", "isis": "Up"}
"""The state of a session that is up, by the kind of its events. BFD only monitors links; the others carry routes."""
DOWN: Final = "Down"
"""The state of an OSPF or IS-IS adjacency that its router no longer lists."""
LOST: Final = "daemon lost"
"""The state of a session whose daemon has ended. Routers do not report it."""
SESSION_KINDS: Final = {"bgpd": "bgp", "bfdd": "bfd", "ospfd": "ospf", "ospf6d": "ospf6", "isisd": "isis"}
"""The kind of events of each daemon's sessions."""
TITLES: Final[Mapping[str, str]] = {
    "bgp": "BGP session",
    "ospf": "OSPFv2 adjacency",
    "ospf6": "OSPFv3 adjacency",
    "isis": "IS-IS adjacency",
}
"""The title of a session that carries routes, by the kind of its events."""
_OF_UNDERLAY: Final = {Underlay.OSPF: ("ospf", "ospf6"), Underlay.ISIS: ("isis",)}


def kinds_of(topology: Topology) -> tuple[str, ...]:
    """Return the kinds of sessions from which a topology's switches learn routes; empty if they only bridge."""
    bgp = ("bgp",) if topology.has_bgp else ()
    return (*bgp, *_OF_UNDERLAY.get(topology.routing.underlay, ()))
