"""``rocelab status``: tables of a fabric's nodes, sessions, links and RDMA devices; or its overlay."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lab.backends.health import NodeHealth, examine
from lab.backends.overlay_health import examine_overlay
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.open_fabric import reading
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.tables.evpn_tables import as_data, show_overlay
from lab.cli.tables.tree_table import as_tree, show_tree, tree_of
from lab.errors import ExitCode
from lab.units import format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.backends.backend import Fabric
    from lab.kernel.netlink.interfaces import InterfaceState
    from lab.model.topology import Link
    from lab.routing.spanning_tree import SpanningTree


def status(
    name: FabricOption = None,
    json: JsonFlag = False,
    evpn: Annotated[
        bool, typer.Option("--evpn", help="Show the overlay instead: VNIs, and the EVPN routes of each VTEP.")
    ] = False,
) -> None:
    """Show the nodes, sessions, links and RDMA devices of a fabric; exit code 1 if any of them is down.

    A node that lost a route or address of its plan, or forwards nothing, is not ok. The MTU of a link is that of
    both ends.
    """
    if evpn:
        _overlay(name, json)
        return
    with reading(name) as fabric:
        nodes = examine(fabric)
    tree = tree_of(fabric, nodes)
    healthy = all(node.healthy for node in nodes) and not (tree and tree.gaps)
    if json:
        described = {} if tree is None else {"tree": as_tree(tree)}
        each = [_as_data(node) for node in nodes]
        print_json({"fabric": fabric.name, "healthy": healthy, "nodes": each, **described})
    else:
        _show(fabric, nodes, tree)
    if not healthy:
        sys.exit(ExitCode.FAIL)


def _overlay(name: str | None, json: bool) -> None:
    with reading(name) as fabric:
        overlay = examine_overlay(fabric)
    if json:
        print_json(as_data(fabric.name, overlay))
    else:
        show_overlay(fabric.name, overlay)
    if not overlay.healthy:
        sys.exit(ExitCode.FAIL)


def _as_data(node: NodeHealth) -> dict[str, object]:
    return asdict(node) | {"healthy": node.healthy}


def _show(fabric: Fabric, nodes: list[NodeHealth], tree: SpanningTree | None) -> None:
    stdout.print(table(f"nodes of {fabric.name}", ("node", "role", "state", "daemons"), map(_node_row, nodes)))
    peers = ("router", "interface", "peer", "BGP", "BFD", "prefixes", "for")
    sessions = [
        (
            node.name,
            s.interface,
            s.description,
            s.state,
            node.bfd.get(s.interface, "-"),
            s.prefixes,
            format_time(s.uptime),
        )
        for node in nodes
        for s in node.sessions
    ]
    if tree is not None:
        show_tree(tree)
    elif fabric.topology.has_bgp:
        stdout.print(table("sessions", peers, sessions))
    _show_unprotected(fabric, nodes)
    adjacent = [
        (node.name, n.interface, n.description, n.protocol, n.state, node.bfd.get(n.interface, "-"),
         format_time(n.uptime))
        for node in nodes
        for n in node.neighbours
    ]  # fmt: skip
    if adjacent:
        stdout.print(
            table("neighbours", ("router", "interface", "peer", "protocol", "state", "BFD", "for"), adjacent)
        )
    by_name = {node.name: node for node in nodes}
    links = []
    for link in fabric.topology.links:
        here, there = (by_name[end.node].interfaces.get(end.interface) for end in link.ends)
        carries = here is not None and there is not None and here.up and there.up
        sent = [format_size(end.tx_bytes) if end else "?" for end in (here, there)]
        drops = sum(end.drops for end in (here, there) if end)
        state, rate = "up" if carries else "down", format_rate(_rate(fabric, link))
        links.append((link.a, link.b, state, rate, _mtu((here, there)), *sent, drops))
    heads = ("a", "b", "state", "rate", "mtu", "a sent", "b sent", "drops")
    stdout.print(table("links", heads, links))
    devices = [(node.name, device, state) for node in nodes for device, state in node.rdma.items()]
    if devices:
        stdout.print(table("RDMA devices", ("host", "device", "state"), devices))


def _show_unprotected(fabric: Fabric, nodes: list[NodeHealth]) -> None:
    """Print the links without BFD at one end or both: only timers of routing notice that one is dead."""
    ends = {f"{node.name}:{port}": state for node in nodes for port, state in node.bfd.items()}
    for link in fabric.topology.links:
        absent = [str(end) for end in link.ends if ends.get(str(end)) == "absent"]
        if absent:
            lack = "neither end has" if len(absent) > 1 else f"{absent[0]} does not have"
            text = f"{link.a}--{link.b}: {lack} a BFD session, and only timers of routing notice a dead link"
            stdout.print(text, markup=False, highlight=False, soft_wrap=True)


def _mtu(ends: Iterable[InterfaceState | None]) -> str:
    """Return the MTU of the ends of a link, or both if they differ."""
    return ", ".join(dict.fromkeys(str(end.mtu) if end else "?" for end in ends))


def _rate(fabric: Fabric, link: Link) -> int:
    """Return the current rate of a link in bit/s: ``qos set`` may have changed it."""
    if fabric.topology.qos is None:
        return link.rate
    return fabric.qos[link.a.node].ports[link.a.interface].rate


def _node_row(node: NodeHealth) -> tuple[str, ...]:
    daemons = " ".join(daemon if alive else f"{daemon}(DEAD)" for daemon, alive in node.daemons.items())
    return node.name, node.role, "ok" if node.healthy else node.complaint or "not well", daemons
