"""What FRR says of itself, as JSON."""

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
"""Seconds without an answer after which a daemon is given up."""


@dataclass(frozen=True, slots=True)
class BgpSession:
    """One BGP session."""

    interface: str
    """Or the peer's address, of a session between loopbacks or with a router outside."""
    description: str
    """What it leads to, as leaf1:swp1, or a switch's name."""
    state: str
    """As RFC 4271 section 8.2.2 has it: Established."""
    prefixes: int
    """Received, of all address families."""
    uptime: float
    """Seconds since it was established."""
    connections: int | None = None
    """How often it was established since the daemon began; None where FRR does not report it."""

    @property
    def established(self) -> bool:
        """Whether routes flow (RFC 4271 section 8.2.2)."""
        return self.state == "Established"

    @property
    def of_loopbacks(self) -> bool:
        """Whether it is on no link; BFD watches the links that it goes by."""
        return ":" in self.interface or self.interface[:1].isdecimal()


def show(router: Router, daemon: str, command: str) -> Any:
    """The answer of a router's daemon to a ``show ... json`` command; OperationFailed when it is no JSON."""
    try:
        with Vty(router.terminal(daemon)) as terminal:
            return json.loads(terminal.answer_to(command, PATIENCE))
    except (OperationFailed, json.JSONDecodeError) as error:
        raise OperationFailed(
            f"{router.name}: no answer to '{command}'", "is its daemon running? rocelab status"
        ) from error


def sessions(router: Router, vrf: str = "") -> list[BgpSession]:
    """The BGP sessions of a router, or those that it has in a VRF, in the order of its interfaces."""
    where = f"vrf {vrf} " if vrf else ""
    return parse_sessions(show(router, "bgpd", f"show bgp {where}summary json"))


def liveness(router: Router) -> dict[str, bool]:
    """Whether BFD is up, by interface."""
    return parse_bfd(show(router, "bfdd", "show bfd peers json"))


def parse_sessions(families: Mapping[str, Any]) -> list[BgpSession]:
    """The sessions in ``show bgp summary json``, the prefixes of all address families added up."""
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
    """Whether all sessions in ``show bfd peers json`` are Up (RFC 5880 section 4.1), by interface."""
    found: dict[str, bool] = {}
    for peer in peers:
        found[peer["interface"]] = found.get(peer["interface"], True) and peer["status"] == "up"
    return found
