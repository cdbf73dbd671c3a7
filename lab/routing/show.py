"""What FRR says of itself, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.routing.daemons import Router

_BGP: Final = "show bgp summary json"
_BFD: Final = "show bfd peers json"


@dataclass(frozen=True, slots=True)
class Session:
    """One BGP session."""

    interface: str
    description: str
    """What it leads to, as leaf1:swp1."""
    state: str
    """As RFC 4271 section 8.2.2 has it: Established."""
    prefixes: int
    """Received, of all address families."""
    uptime: float
    """Seconds since it was established."""

    @property
    def established(self) -> bool:
        """Whether routes flow (RFC 4271 section 8.2.2)."""
        return self.state == "Established"


def show(router: Router, *commands: str) -> list[Any]:
    """The answers to ``show ... json`` commands, read by one vtysh; OperationFailed when one is no JSON."""
    said = router.namespace.run(router.vtysh(*commands), check=False).stdout
    answers: list[Any] = []
    decoder = json.JSONDecoder()
    rest = said.lstrip()
    try:
        for _ in commands:
            answer, end = decoder.raw_decode(rest)
            answers.append(answer)
            rest = rest[end:].lstrip()
    except json.JSONDecodeError as error:
        silent = commands[len(answers)]
        raise OperationFailed(
            f"{router.name}: no answer to '{silent}'", "is its daemon running? rocelab status"
        ) from error
    return answers


def sessions(router: Router) -> list[Session]:
    """All BGP sessions of a router, in the order of its interfaces."""
    return parse_sessions(*show(router, _BGP))


def sessions_and_liveness(router: Router) -> tuple[list[Session], dict[str, bool]]:
    """All BGP sessions, and whether BFD is up by interface."""
    bgp, bfd = show(router, _BGP, _BFD)
    return parse_sessions(bgp), parse_bfd(bfd)


def parse_sessions(families: Mapping[str, Any]) -> list[Session]:
    """The sessions in ``show bgp summary json``, the prefixes of all address families added up."""
    found: dict[str, Session] = {}
    for family in families.values():
        for interface, peer in family.get("peers", {}).items():
            earlier = found.get(interface)
            found[interface] = Session(
                interface=interface,
                description=peer.get("desc", ""),
                state=peer["state"],
                prefixes=peer.get("pfxRcd", 0) + (earlier.prefixes if earlier else 0),
                uptime=peer.get("peerUptimeMsec", 0) / 1000,
            )
    return list(found.values())


def parse_bfd(peers: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Whether each session in ``show bfd peers json`` is Up (RFC 5880 section 4.1), by interface."""
    return {peer["interface"]: peer["status"] == "up" for peer in peers}
