"""What a running fabric says of itself, one read per node: daemons, sessions, links, RDMA devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lab.backends.state import Kind
from lab.errors import OperationFailed
from lab.kernel import netns
from lab.kernel.interfaces import interfaces
from lab.rdma import rxe, sysfs
from lab.routing.show import Session, sessions, sessions_and_liveness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.backends.base import Fabric
    from lab.kernel.interfaces import InterfaceState
    from lab.model.topology import Bfd, Node, Role
    from lab.routing.daemons import Router

Liveness: TypeAlias = Literal["up", "starting", "down"]
"""A BFD session's state; while it is too young to be judged it is starting."""

_BFD_START: Final = 5.0
"""Seconds: three packets each way at the rate of a session that is not up, and some for a busy machine."""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """One node as it is now."""

    name: str
    role: Role
    daemons: Mapping[str, bool]
    """Whether each lives."""
    sessions: tuple[Session, ...]
    bfd: Mapping[str, Liveness]
    """By interface."""
    interfaces: Mapping[str, InterfaceState]
    rdma: Mapping[str, str]
    """State of each RDMA device: ACTIVE."""
    complaint: str = ""
    """Why its router gave no answer, or which interfaces are gone."""

    @property
    def healthy(self) -> bool:
        """Whether all that should run does."""
        up = all(interface.up for interface in self.interfaces.values())
        peers = all(session.established for session in self.sessions)
        verbs = all(state == "ACTIVE" for state in self.rdma.values())
        live = all(self.daemons.values()) and "down" not in self.bfd.values()
        return not self.complaint and up and peers and verbs and live


def examine(fabric: Fabric) -> list[NodeHealth]:
    """The health of every node, read in parallel."""
    with netns.inhabited(fabric.state.proofs(Kind.NAMESPACE)) as places:
        alive = netns.processes_in(places)
    with ThreadPoolExecutor() as readers:
        return list(readers.map(lambda node: _examine(fabric, node.name, alive), fabric.topology.nodes))


def _examine(fabric: Fabric, name: str, alive: Mapping[int, str]) -> NodeHealth:
    node = fabric.topology.node(name)
    states = interfaces(fabric.namespace(name))
    wanted = {interface: states[interface] for interface in fabric.plan[name].interfaces if interface in states}
    daemons: dict[str, bool] = {}
    peers: list[Session] = []
    bfd: dict[str, Liveness] = {}
    complaint = ""
    if node.role.is_switch:
        router = fabric.router(name)
        daemons = {daemon: pid in alive for daemon, pid in router.pids().items()}
        try:
            peers, bfd = _ask(router, fabric.topology.routing.bfd)
        except OperationFailed as error:
            complaint = str(error)
    missing = set(fabric.plan[name].interfaces) - set(states)
    if missing:
        complaint = complaint or f"interfaces {', '.join(sorted(missing))} are gone"
    return NodeHealth(name, node.role, daemons, tuple(peers), bfd, wanted, _rdma(fabric, node), complaint)


def _ask(router: Router, intent: Bfd) -> tuple[list[Session], dict[str, Liveness]]:
    """A router's sessions, and BFD's state of each on a link: ``up``, ``down``, or ``starting`` while it is young.

    BFD begins when BGP is established, at one packet a second whatever the timers (RFC 5880 section 6.8.3).
    """
    if not intent.enabled:
        return sessions(router), {}
    peers, up = sessions_and_liveness(router)
    grace = _BFD_START + intent.interval * intent.multiplier
    return peers, {
        peer.interface: "up" if up.get(peer.interface) else "starting" if peer.uptime < grace else "down"
        for peer in peers
        if not peer.of_loopbacks
    }


def _rdma(fabric: Fabric, node: Node) -> dict[str, str]:
    """State of each RDMA device that the node asked for (IBA section 11.2.2.2: port state)."""
    devices = [rxe.device_name(fabric.name, node.name, nic) for nic in fabric.plan[node.name].interfaces if node.rdma]
    return {device: sysfs.state(device) if sysfs.exists(device) else "gone" for device in devices}
