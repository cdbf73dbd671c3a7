"""The cabling of a fabric as LLDP sees it, compared with its topology."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.kernel.netlink.interfaces import with_carrier
from lab.routing.lldp.lldp_daemons import lldp_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.kernel.process.netns import Namespace
    from lab.model.topology import Topology
    from lab.routing.lldp.lldp_daemons import LldpNeighbour, LldpSession

_POLL: Final = 0.1
_AT_ONCE: Final = 8


class CableState(StrEnum):
    """The state of a port's cable, as LLDP reports it."""

    OK = "ok"
    """The planned neighbour, and no other."""
    WRONG = "wrong"
    """Another neighbour."""
    UNSEEN = "not seen"
    """No neighbour, though the port is up."""
    DOWN = "down"
    """No neighbour: the port is down or missing, or has no carrier."""


@dataclass(frozen=True, slots=True)
class CabledPort:
    """A port of the topology: the planned neighbour, and what LLDP sees."""

    node: str
    port: str
    expected: str
    """The planned neighbour, as ``leaf1:swp1``."""
    seen: tuple[str, ...]
    """The neighbours from which LLDP frames arrive."""
    state: CableState


def examine_cabling(topology: Topology, namespaces: Mapping[str, Namespace], patience: float) -> list[CabledPort]:
    """Run LLDP in all nodes, and return what it sees on each port of the topology.

    Returns when every port that is up has a neighbour, or after ``patience`` seconds. A daemon sends a frame each
    second. Raises EnvironmentLacks without lldpd or root, OperationFailed if a node is gone or lldpd does not run.
    """
    ports = {node.name: [link.end_at(node.name).interface for link in topology.links_of(node.name)]
             for node in topology.nodes}  # fmt: skip
    ports = {node: names for node, names in ports.items() if names}
    up = {node: with_carrier(namespaces[node]) for node in ports}
    with lldp_session(namespaces, ports) as session:
        seen = _await(session, {node: up[node] & set(names) for node, names in ports.items()}, patience)
    return compare_cabling(topology, seen, up)


def _await(
    session: LldpSession, wanted: Mapping[str, set[str]], patience: float
) -> dict[str, dict[str, list[LldpNeighbour]]]:
    with ThreadPoolExecutor(_AT_ONCE) as clients:
        seen = dict(zip(wanted, clients.map(session.neighbours, wanted), strict=True))
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            missing = [node for node, names in wanted.items() if names - seen[node].keys()]
            if not missing:
                break
            time.sleep(_POLL)
            seen |= zip(missing, clients.map(session.neighbours, missing), strict=True)
    return seen


def compare_cabling(
    topology: Topology,
    seen: Mapping[str, Mapping[str, Sequence[LldpNeighbour]]],
    up: Mapping[str, set[str]],
) -> list[CabledPort]:
    """Compare the neighbours on each port, by node, with the topology; ``up`` has the ports that are up."""
    found = []
    for node in topology.nodes:
        for link in topology.links_of(node.name):
            port = link.end_at(node.name).interface
            expected = str(link.other(link.end_at(node.name)))
            names = tuple(sorted(map(str, seen.get(node.name, {}).get(port, ()))))
            if names:
                state = CableState.OK if names == (expected,) else CableState.WRONG
            else:
                state = CableState.UNSEEN if port in up.get(node.name, ()) else CableState.DOWN
            found.append(CabledPort(node=node.name, port=port, expected=expected, seen=names, state=state))
    return found
