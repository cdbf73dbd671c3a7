"""State of FRR's daemons from their ``show ... json`` commands: BGP sessions and BFD."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.routing.vty import Vty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.routing.daemons import Router


PATIENCE: Final = 20.0
"""Seconds without an answer before a request fails."""


@dataclass(frozen=True, slots=True)
class BgpSession:
    """One BGP session."""

    interface: str
    """The interface, or the peer's address for sessions between loopbacks or with an external router."""
    description: str
    """The peer, like leaf1:swp1 or a switch's name."""
    state: str
    """The state by RFC 4271 section 8.2.2, like Established."""
    prefixes: int
    """Prefixes received, of all address families."""
    uptime: float
    """Seconds since it was established."""
    connections: int | None = None
    """The number of times that the session was established since bgpd started; None if FRR does not report it."""

    @property
    def established(self) -> bool:
        """Whether the session is Established (RFC 4271 section 8.2.2)."""
        return self.state == "Established"

    @property
    def of_loopbacks(self) -> bool:
        """Whether the session is between addresses instead of on a link; BFD watches the links below it."""
        return ":" in self.interface or self.interface[:1].isdecimal()


def show(router: Router, daemon: str, command: str) -> Any:
    """Return a daemon's answer to a ``show ... json`` command; raise OperationFailed if it is not JSON."""
    try:
        with Vty(router.terminal(daemon)) as terminal:
            return json.loads(terminal.answer_to(command, PATIENCE))
    except (OperationFailed, json.JSONDecodeError) as error:
        raise OperationFailed(
            f"{router.name}: no answer to '{command}'", "is its daemon running? rocelab status"
        ) from error


def sessions(router: Router, vrf: str = "") -> list[BgpSession]:
    """Return the BGP sessions of a router or of one of its VRFs, in bgpd's order."""
    where = f"vrf {vrf} " if vrf else ""
    return parse_sessions(show(router, "bgpd", f"show bgp {where}summary json"))


def liveness(router: Router) -> dict[str, bool]:
    """Return whether BFD is up, by interface."""
    return parse_bfd(show(router, "bfdd", "show bfd peers json"))


def parse_sessions(families: Mapping[str, Any]) -> list[BgpSession]:
    """Return the sessions in ``show bgp summary json``, with the prefixes of all address families added up."""
    found: dict[str, BgpSession] = {}
    for family in families.values():
        for interface, peer in family.get("peers", {}).items():
            earlier = found.get(interface)
            found[interface] = BgpSession(
                interface=interface,
                description=peer.get("desc", ""),
                state=peer["state"],
                prefixes=peer.get("pfxRcd", 0) + (earlier.prefixes if earlier else 0),
                uptime=peer.get("peerUptimeMsec", 0) / 1000,
                connections=peer.get("connectionsEstablished"),
            )
    return list(found.values())


def parse_bfd(peers: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Return whether all sessions in ``show bfd peers json`` are Up (RFC 5880 section 4.1), by interface."""
    found: dict[str, bool] = {}
    for peer in peers:
        found[peer["interface"]] = found.get(peer["interface"], True) and peer["status"] == "up"
    return found
