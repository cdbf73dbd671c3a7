"""What FRR says of OSPF's neighbours, beside those that a switch must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.routing.show import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology
    from lab.routing.daemons import Router

_FULL: Final = "Full"
_DOWN: Final = "Down"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One link of OSPF's."""

    interface: str
    description: str
    """What it leads to, as leaf1:swp1."""
    version: int
    """2 for IPv4 (RFC 2328), 3 for IPv6 (RFC 5340)."""
    state: str
    """As RFC 2328 section 10.1 has it: Full; Down where there is no neighbour."""
    uptime: float
    """Seconds since it came to be in this state."""

    @property
    def full(self) -> bool:
        """Whether both have the same database, and routes go by this link."""
        return self.state == _FULL


def neighbours(router: Router, topology: Topology) -> list[Neighbour]:
    """A neighbour of each version on every link to a switch; OperationFailed when a daemon does not answer."""
    said = {
        2: parse_ospf(show(router, "ospfd", "show ip ospf neighbor json")),
        3: parse_ospf6(show(router, "ospf6d", "show ipv6 ospf6 neighbor json")),
    }
    found = []
    for link in topology.links_of(router.name):
        here = link.end_at(router.name)
        there = link.other(here)
        if topology.node(there.node).role.is_switch:
            for version, states in said.items():
                state, uptime = states.get(here.interface, (_DOWN, 0.0))
                found.append(Neighbour(here.interface, str(there), version, state, uptime))
    return found


def parse_ospf(said: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """State and age by interface, of ``show ip ospf neighbor json``; behind a state is who is what on a LAN."""
    return {
        each["ifaceName"].split(":")[0]: (each["nbrState"].split("/")[0], each.get("upTimeInMsec", 0) / 1000)
        for neighbour in said.get("neighbors", {}).values()
        for each in neighbour
    }


def parse_ospf6(said: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """The same of ``show ipv6 ospf6 neighbor json``."""
    return {each["interfaceName"]: (each["state"], _seconds(each["duration"])) for each in said.get("neighbors", ())}


def _seconds(written: str) -> float:
    """Of a time as FRR writes it, hh:mm:ss; longer than a day it has letters, and counts as one."""
    parts = written.split(":")
    if not all(part.isdecimal() for part in parts):
        return 86_400.0
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))
