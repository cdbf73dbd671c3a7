"""OSPF and IS-IS adjacencies, as FRR reports them, for every link that requires one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.model.topology import Underlay
from lab.routing.show import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.topology import Topology
    from lab.routing.daemons import Router

LOOKS: Final = {
    "ospfd": "show ip ospf neighbor json",
    "ospf6d": "show ipv6 ospf6 neighbor json",
    "isisd": "show isis neighbor detail json",
}
"""The command that lists a daemon's neighbours, by daemon."""
_READY: Final = ("Full", "Up")
_DOWN: Final = "Down"
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One adjacency of a link-state protocol."""

    interface: str
    description: str
    """The neighbour, like leaf1:swp1."""
    protocol: str
    """OSPFv2 for IPv4 (RFC 2328), OSPFv3 for IPv6 (RFC 5340), or IS-IS for both."""
    state: str
    """The state by RFC 2328 section 10.1 or ISO 10589, like Full or Up; Down without a neighbour."""
    uptime: float
    """Seconds in this state."""

    @property
    def full(self) -> bool:
        """Whether the adjacency is complete, so that routes use the link."""
        return self.state in _READY


def neighbours(router: Router, topology: Topology) -> list[Neighbour]:
    """Return an adjacency of each protocol for every link to a switch; none with an eBGP underlay.

    Raises OperationFailed if a daemon does not answer.
    """
    said = _states(router, topology.routing.underlay)
    found = []
    for link in topology.links_of(router.name):
        here = link.end_at(router.name)
        there = link.other(here)
        if topology.node(there.node).role.is_switch:
            for protocol, states in said.items():
                state, uptime = states.get(here.interface, (_DOWN, 0.0))
                found.append(
                    Neighbour(
                        interface=here.interface,
                        description=str(there),
                        protocol=protocol,
                        state=state,
                        uptime=uptime,
                    )
                )
    return found


def _states(router: Router, underlay: Underlay) -> dict[str, dict[str, tuple[str, float]]]:
    if underlay is Underlay.OSPF:
        return {
            "OSPFv2": parse_ospf(show(router, "ospfd", LOOKS["ospfd"])),
            "OSPFv3": parse_ospf6(show(router, "ospf6d", LOOKS["ospf6d"])),
        }
    if underlay is Underlay.ISIS:
        return {"IS-IS": parse_isis(show(router, "isisd", LOOKS["isisd"]))}
    return {}


def parse_isis(said: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Return state and age by interface, from ``show isis neighbor detail json``."""
    circuits = [circuit for area in said.get("areas", ()) for circuit in area.get("circuits", ())]
    return {
        each["name"]: (each["state"], _age(each.get("last-ago", "")))
        for circuit in circuits
        if (each := circuit.get("interface")) and "state" in each
    }


def parse_ospf(said: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Return state and age by interface, from ``show ip ospf neighbor json``, without the LAN role."""
    return {
        each["ifaceName"].split(":")[0]: (each["nbrState"].split("/")[0], each.get("upTimeInMsec", 0) / 1000)
        for neighbour in said.get("neighbors", {}).values()
        for each in neighbour
    }


def parse_ospf6(said: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Return the same from ``show ipv6 ospf6 neighbor json``."""
    return {each["interfaceName"]: (each["state"], _seconds(each["duration"])) for each in said.get("neighbors", ())}


def _age(written: str) -> float:
    """Return the seconds of a time in isisd's form: 1h2m3s."""
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([wdhms])", written)))


def _seconds(written: str) -> float:
    """Return the seconds of a time in FRR's form hh:mm:ss; longer times contain letters, and count as one day."""
    parts = written.split(":")
    if not all(part.isdecimal() for part in parts):
        return 86_400.0
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))
