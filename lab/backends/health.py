"""The health of a running fabric: daemons, sessions, links and RDMA devices of each node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lab.backends.fabric_state import JournalKind
from lab.errors import OperationFailed
from lab.kernel.netlink.bridges import SETTLED, tree_state
from lab.kernel.netlink.interfaces import addresses, interfaces
from lab.kernel.netlink.routes import default_routes
from lab.kernel.process import netns_processes, tuning
from lab.model.host_routes import host_routes
from lab.model.overlay.plan import BRIDGE, plan_overlay
from lab.model.topology import Role
from lab.rdma import rxe, sysfs
from lab.routing.frr_config.render import has_routers
from lab.routing.show import BgpSession, liveness, sessions
from lab.routing.wait.adjacency import Neighbour, neighbours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.netlink.bridges import TreeState
    from lab.kernel.netlink.interfaces import Interface, InterfaceState
    from lab.model.addressing import NodePlan
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Node, Topology
    from lab.routing.daemons import Router

Liveness: TypeAlias = Literal["up", "starting", "down", "absent"]
"""The state of a BFD session. One that may still be coming up is ``starting``, and one that is missing ``absent``."""

_LOOPBACK: Final = "lo"
_BFD_START: Final = 5.0
"""Seconds: three packets each way at the rate of a session that is not up, and a margin for busy machines."""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The current state of one node."""

    name: str
    role: Role
    daemons: Mapping[str, bool]
    """Whether each daemon runs."""
    sessions: tuple[BgpSession, ...]
    bfd: Mapping[str, Liveness]
    """State of the BFD session on each interface."""
    interfaces: Mapping[str, InterfaceState]
    rdma: Mapping[str, str]
    """State of each RDMA device; ACTIVE if it works."""
    neighbours: tuple[Neighbour, ...] = ()
    """OSPF or IS-IS neighbours, if the underlay uses one of them."""
    tree: TreeState | None = None
    """State of its spanning tree, if the node bridges plain VLANs."""
    complaint: str = ""
    """Why it is not ok, apart from the above: its router does not answer, default routes differ, interfaces or
    addresses are missing, or it forwards nothing."""

    @property
    def healthy(self) -> bool:
        """Whether all daemons, sessions, links and RDMA devices of the node are up."""
        up = all(interface.up for interface in self.interfaces.values())
        peers = all(session.established for session in self.sessions) and all(each.full for each in self.neighbours)
        verbs = all(state == "ACTIVE" for state in self.rdma.values())
        live = all(self.daemons.values()) and not {"down", "absent"} & {*self.bfd.values()}
        live = live and (self.tree is None or all(port.state in SETTLED for port in self.tree.ports))
        return not self.complaint and up and peers and verbs and live


def examine(fabric: Fabric) -> list[NodeHealth]:
    """Return the health of every node; the nodes are read in parallel."""
    with netns_processes.inhabited(fabric.state.proofs(JournalKind.NAMESPACE)) as places:
        alive = netns_processes.processes_in(places)
    overlay = plan_overlay(fabric.topology)
    gone = fabric.backend.complaints(fabric.state)
    with ThreadPoolExecutor() as readers:
        return list(
            readers.map(
                lambda node: _examine(fabric, node.name, alive, overlay, gone.get(node.name, "")),
                fabric.topology.nodes,
            )
        )


def _examine(
    fabric: Fabric, name: str, alive: Mapping[int, str], overlay: OverlayPlan | None, complaint: str
) -> NodeHealth:
    node = fabric.topology.node(name)
    externals = list(overlay.externals.values()) if overlay else []
    states = interfaces(fabric.namespace(name))
    wanted = {interface: states[interface] for interface in fabric.plan[name].interfaces if interface in states}
    daemons: dict[str, bool] = {}
    peers: list[BgpSession] = []
    bfd: dict[str, Liveness] = {}
    adjacent: list[Neighbour] = []
    router = fabric.router(name)
    outside = name in {external.host for external in externals}
    tree = None
    if node.role.is_switch and not has_routers(fabric.topology):
        tree = tree_state(fabric.namespace(name), BRIDGE)
        complaint = complaint or ("" if tree else f"{BRIDGE} is gone, or in no spanning tree")
    elif (node.role.is_switch or outside) and not complaint:
        daemons = {daemon: pid in alive for daemon, pid in router.pids().items()}
        try:
            if outside:
                peers = sessions(router)
            else:
                adjacent = neighbours(router, fabric.topology)
                peers, bfd = _ask(router, fabric.topology, adjacent)
                vrfs = dict.fromkeys(external.tenant for external in externals if external.leaf == name)
                peers += [session for vrf in vrfs for session in sessions(router, vrf)]
        except OperationFailed as error:
            complaint = error.message  # its remedy is to look at this table
    elif node.role is Role.HOST and not outside:
        complaint = complaint or unrouted(fabric, name)
    missing = set(fabric.plan[name].interfaces) - set(states)
    if missing:
        complaint = complaint or f"interfaces {', '.join(sorted(missing))} are gone"
    complaint = complaint or unaddressed(fabric, name, overlay)
    if daemons and not outside:
        complaint = complaint or unforwarding(fabric, name)
    return NodeHealth(
        name=name,
        role=node.role,
        daemons=daemons,
        sessions=tuple(peers),
        bfd=bfd,
        interfaces=wanted,
        rdma=_rdma(fabric, node),
        neighbours=tuple(adjacent),
        tree=tree,
        complaint=complaint,
    )


def unrouted(fabric: Fabric, host: str) -> str:
    """Return how the default routes of a host differ from the planned ones; "" if they do not."""
    have = default_routes(fabric.namespace(host)) if any(host_routes(fabric.plan[host])) else []
    for route in host_routes(fabric.plan[host]):
        same = [each for each in have if each.version == route.gateway.version]
        index = fabric.numbering.index(host, route.interface)
        mine = [each for each in same if each.index == index]
        if any(each.refuses for each in same[:1]):
            return f"its default route refuses: {route.gateway} is its gateway"
        if not mine:
            return f"no default route by {route.interface}: {route.gateway} is its gateway"
        if mine[0].gateway != str(route.gateway):
            return f"default route to {mine[0].gateway or 'nobody'}: {route.gateway} is its gateway"
    return ""


def unaddressed(fabric: Fabric, node: str, overlay: OverlayPlan | None) -> str:
    """Return the planned addresses that a node's interfaces do not have; "" if all are there."""
    have = addresses(fabric.namespace(node))
    lost = [
        f"{address} of {interface}"
        for interface, planned in _planned_addresses(fabric.plan[node], overlay)
        for address in planned
        if not _is_there(address, interface, have.get(interface, frozenset()))
    ]
    return f"lost address {', '.join(lost)}" if lost else ""


def _planned_addresses(plan: NodePlan, overlay: OverlayPlan | None) -> Iterator[tuple[str, Sequence[Interface]]]:
    """Yield the interfaces of a node with their planned addresses."""
    for port in plan.interfaces.values():
        yield port.name, [address for address in (port.address, port.borrowed) if address is not None]
    yield from plan.further.items()
    yield _LOOPBACK, plan.loopbacks
    if overlay is not None and (leaf := overlay.leaves.get(plan.node.name)) is not None:
        yield from ((gateway.name, gateway.addresses) for gateway in leaf.gateways)
    if overlay is not None and (external := overlay.externals.get(plan.node.name)) is not None:
        yield _LOOPBACK, external.addresses


def _is_there(address: Interface, interface: str, have: frozenset[Interface]) -> bool:
    """Return whether an interface has an address; a loopback may have it with another prefix length."""
    return address in have or (interface == _LOOPBACK and address.ip in {each.ip for each in have})


def unforwarding(fabric: Fabric, switch: str) -> str:
    """Return which of the IP versions that a switch needs it does not forward; "" if it forwards all.

    These are the versions of the fabric's hosts. Switches between the leaves of an overlay forward VXLAN in IPv4.
    """
    ports = (port for node in fabric.plan.values() for port in node.interfaces.values())
    versions = {port.gateway.version for port in ports if port.gateway is not None}
    if fabric.topology.overlay is not None and fabric.topology.node(switch).role is not Role.LEAF:
        versions = {4}
    paths = [tuning.FORWARDING[version] for version in sorted(versions)]
    now = fabric.namespace(switch).inside(lambda: tuning.read_sysctls(paths))
    off = [path.replace("/", ".") for path in paths if now.get(path) == "0"]
    return f"forwards no packets: {', '.join(off)} is 0" if off else ""


def _ask(
    router: Router, topology: Topology, adjacent: Sequence[Neighbour]
) -> tuple[list[BgpSession], dict[str, Liveness]]:
    """Return the sessions of a router, and the BFD state of each link.

    BFD begins when a session is established or an adjacency is up. Whatever the timers, it begins with one packet a
    second (RFC 5880 section 6.8.3), so a young session is ``starting`` rather than ``down``.
    """
    intent = topology.routing.bfd
    peers = sessions(router) if topology.has_bgp else []
    if not intent.enabled:
        return peers, {}
    up = liveness(router)
    grace = _BFD_START + intent.interval * intent.multiplier
    ages = {peer.interface: peer.uptime for peer in peers if not peer.of_loopbacks}
    for each in filter(lambda each: each.full, adjacent):
        ages[each.interface] = min(ages.get(each.interface, each.uptime), each.uptime)
    return peers, {
        interface: "up"
        if up.get(interface)
        else "starting"
        if age < grace
        else "down"
        if interface in up
        else "absent"
        for interface, age in ages.items()
    }


def _rdma(fabric: Fabric, node: Node) -> dict[str, str]:
    """Return the port state of each planned RDMA device of the node (IBA section 11.2.2.2), or ``gone``."""
    devices = [rxe.device_name(fabric.name, node.name, nic) for nic in fabric.plan[node.name].nics if node.rdma]
    return {device: sysfs.state(device) if sysfs.exists(device) else "gone" for device in devices}
