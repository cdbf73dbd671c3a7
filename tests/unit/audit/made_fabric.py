"""A fabric as it should be, and what differs if one node is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.objects.device_objects import PortAudit
from lab.audit.objects.kernel_objects import (
    AddressAudit,
    InterfaceAudit,
    NeighbourAudit,
    QdiscAudit,
    RouteAudit,
    RuleAudit,
    SysctlAudit,
)
from lab.audit.objects.routing_objects import MAPPED, DaemonAudit, FrrLineAudit
from lab.audit.without_plan import differences_without_plan
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.routing.wait.route_expectations import expected_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.model.topology import Topology

TOPOLOGY = read_topology(Path(__file__).parents[3] / "topologies" / "clos-2x4.yaml")
PORTS = {"rate": "1000", "pfc.priorities": "8", "trust": "dscp", "dscp_to_priority.26": "3", "queues.3.ecn.kmin": "9"}


def healthy(topology: Topology) -> FabricAudit:
    """The state of a fabric as it should be, from its plan."""
    plan = plan_addresses(topology)
    routes = expected_routes(topology, plan)
    macs = {(name, port.name): port.mac for name, each in plan.items() for port in each.interfaces.values()}
    peers = {
        name: {link.end_at(name).interface: link.other(link.end_at(name)) for link in topology.links_of(name)}
        for name in plan
    }
    nodes = {}
    for name, each in plan.items():
        switch = each.node.role.is_switch
        ports = [InterfaceAudit(port.name, "veth", True, True, 9000, port.mac, "", 1000)
                 for port in each.interfaces.values()]  # fmt: skip
        lines = [f"router bgp {each.asn}", f"router bgp {each.asn} / maximum-paths 64",
                 *(f"router bgp {each.asn} / neighbor {port.name} interface" for port in ports)]  # fmt: skip
        nodes[name] = NodeAudit(
            name=name,
            role=str(each.node.role),
            interfaces=tuple(ports),
            addresses=(
                *(AddressAudit("lo", str(address), "global") for address in each.loopbacks),
                *(AddressAudit(port.name, str(port.address), "global")
                  for port in each.interfaces.values() if port.address),
            ),
            routes=tuple(
                RouteAudit(prefix, "main", "20", "unicast", "bgp",
                           tuple(f"via 169.254.0.1 dev {hop}" for hop in sorted(hops)))
                for prefix, hops in routes.get(name, {}).items()
            ),
            sysctls=(
                SysctlAudit("net.ipv4.ip_forward", str(int(switch))),
                *(SysctlAudit(f"net.ipv4.conf.{port.name}.rp_filter", "0") for port in ports),
            ),
            qdiscs=tuple(QdiscAudit(port.name, "root", "tbf", "1:", {"rate": "1000"}) for port in ports),
            rules=(RuleAudit("inet", 32766, "", "lookup main"),),
            daemons=(DaemonAudit("bgpd", True),) if switch else (),
            frr=tuple(map(FrrLineAudit, lines)) if switch else (),
            ports=tuple(PortAudit(port.name, PORTS, in_kernel=True) for port in ports),
            neighbours=tuple(
                NeighbourAudit(port, MAPPED, macs[peer.node, peer.interface], permanent=True, state="PERMANENT")
                for port, peer in peers[name].items() if switch and topology.node(peer.node).role.is_switch
            ),
        )  # fmt: skip
    return FabricAudit(topology.name, nodes)


STATE = healthy(TOPOLOGY)


def changed(
    name: str, change: Callable[[NodeAudit], NodeAudit], nodes: Mapping[str, NodeAudit] = STATE.nodes
) -> list[tuple[str, str, str, str, str]]:
    """Node, object, setting, value and expected value of what differs, if a node is changed."""
    state = replace(STATE, nodes={**nodes, name: change(nodes[name])})
    return [
        (each.node, each.object, each.field, each.value, each.expected)
        for each in differences_without_plan(state, TOPOLOGY)
    ]
