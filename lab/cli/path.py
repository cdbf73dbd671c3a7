"""``rocelab path``: which ways packets take between two hosts, by the kernels' own routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.complete import FabricOption, node_names
from lab.cli.opening import open_fabric
from lab.cli.output import JsonFlag, print_json, stdout, table
from lab.errors import UsageError
from lab.model.overlay.plan import plan_overlay
from lab.model.suggest import suggest
from lab.model.topology import Endpoint
from lab.routing.path import Place, Walker, check_port

if TYPE_CHECKING:
    from lab.backends.base import Fabric

Host = Annotated[str, typer.Argument(help="Host, or host:interface.", autocompletion=node_names)]


def path(
    src: Host,
    dst: Host,
    sport: Annotated[
        int | None, typer.Option(help="The one path of RoCEv2 packets with this UDP source port. \\[default: all]")
    ] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show all equal paths between two hosts, or the one that a flow takes: each node's kernel is asked."""
    if sport is not None:
        check_port(sport)
    running = open_fabric(fabric)
    start, goal = _place(running, src), _place(running, dst)
    if start.end.node == goal.end.node:
        raise UsageError(f"{src} and {dst} are the same host", "name two hosts")
    if start.address.version != goal.address.version:
        raise UsageError(f"{start.address} and {goal.address} are of two IP versions", "name two of one")
    walker = Walker(running.topology, running.namespace)
    found = walker.every(start, goal) if sport is None else [walker.of_flow(start, goal, sport)]
    if as_json:
        ends = [[str(end) for end in each] for each in found]
        print_json({"src": str(start.end), "dst": str(goal.end), "sport": sport, "paths": ends})
        return
    rows = [(number, " > ".join([*map(str, each), goal.end.node])) for number, each in enumerate(found, start=1)]
    what = "all paths" if sport is None else f"UDP {start.address}:{sport} > {goal.address}:4791"
    stdout.print(table(f"{src} to {dst}, {what}", ("path", "leaves by"), rows))


def _place(fabric: Fabric, name: str) -> Place:
    node, _, interface = name.partition(":")
    hosts = [host.name for host in fabric.topology.hosts]
    if node not in hosts:
        raise UsageError(f"no host {node!r} in fabric {fabric.name}", suggest(node, hosts, f"there is {hosts}"))
    addresses = {
        each: plan.address.ip for each, plan in fabric.plan[node].interfaces.items() if plan.address is not None
    }
    overlay = plan_overlay(fabric.topology)
    if overlay is not None and node in overlay.hosts:
        raise UsageError(
            f"{node} is in network {overlay.hosts[node][0].network}",
            "rocelab status --evpn: paths do not go through tunnels yet",
        )
    chosen = interface or next(iter(addresses))
    if chosen not in addresses:
        raise UsageError(f"no interface {interface!r} on {node}", f"it has {', '.join(addresses)}")
    return Place(Endpoint(node, chosen), addresses[chosen])
