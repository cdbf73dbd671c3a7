"""``rocelab path``: the paths of packets between two hosts, from the routes in the nodes' kernels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import UsageError
from lab.model.overlay.plan import plan_overlay
from lab.model.values.suggest import suggest
from lab.routing.frr_config.render import has_routers
from lab.routing.paths.traffic_end import stations_of
from lab.routing.paths.tunnel_path import TunnelWalker
from lab.routing.paths.underlay_path import Walker, check_port
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric
    from lab.routing.paths.traffic_end import Station
    from lab.routing.paths.tunnel_path import Hops
    from lab.routing.paths.underlay_path import HostAttachment, Path

_SHOWS = "rocelab status has the tree, and rocelab exec leaf1 -- bridge fdb what is behind which port"

Host = Annotated[str, typer.Argument(help="Host, or host:interface.", autocompletion=node_names)]


def path(
    src: Host,
    dst: Host,
    sport: Annotated[
        int | None,
        typer.Option(help="Show the path of RoCEv2 packets with this UDP source port. \\[default: all paths]"),
    ] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show all equal-cost paths between two hosts, or the path of one flow, as each node's kernel resolves it."""
    if sport is not None:
        check_port(sport)
    running = open_fabric(fabric)
    if not has_routers(running.topology):
        raise UsageError(f"fabric {running.name} uses plain VLANs, and path does not follow bridges", _SHOWS)
    start, goal = _station(running, src), _station(running, dst)
    _check(start, goal, sport)
    hops: list[Hops] = []
    if start.network:
        walker = TunnelWalker(
            topology=running.topology, inside=running.namespace, qos=running.qos, src=start, dst=goal, sport=sport
        )
        hops = walker.paths()
        found = [tuple(hop.end for hop in each) for each in hops]
    else:
        found = _in_the_underlay(running, start.place, goal.place, sport)
    if as_json:
        ends = [[str(end) for end in each] for each in found]
        said = [[{**asdict(hop), "end": str(hop.end)} for hop in each] for each in hops]
        print_json({"src": str(start), "dst": str(goal), "sport": sport, "paths": ends, "hops": said})
        return
    rows = [
        (number, " > ".join([*map(str, each), goal.place.end.node])) for number, each in enumerate(found, start=1)
    ]
    what = "all paths" if sport is None else f"UDP {start.place.address}:{sport} > {goal.place.address}:{ROCEV2_PORT}"
    stdout.print(table(f"{src} to {dst}, {what}", ("path", "egress ports"), rows))
    for number, each in enumerate(hops, start=1):
        stdout.print(table(f"path {number}", ("egress port", "query", "answer", "prio", "queue"), _rows(each)))


def _rows(hops: Hops) -> Iterator[tuple[object, ...]]:
    """Return a row for each table; the first row of a node includes the egress interface."""
    for hop in hops:
        about: tuple[object, ...] = (hop.end, hop.priority, hop.queue)
        for looked in hop.looked:
            end, priority, queue = about
            yield end, looked.table, looked.said, priority, queue
            about = ("", None, None)


def _in_the_underlay(fabric: Fabric, start: HostAttachment, goal: HostAttachment, sport: int | None) -> list[Path]:
    walker = Walker(fabric.topology, fabric.namespace)
    return walker.every(start, goal) if sport is None else [walker.of_flow(start, goal, sport)]


def _check(start: Station, goal: Station, sport: int | None) -> None:
    """Raise UsageError for two ends without a path that can be shown."""
    if start.place.end.node == goal.place.end.node:
        raise UsageError(f"{start} and {goal} are the same host", "name two hosts")
    if start.place.address.version != goal.place.address.version:
        raise UsageError(
            f"{start.place.address} and {goal.place.address} have different IP versions",
            "name two addresses of the same version",
        )
    if bool(start.network) != bool(goal.network):
        inside, outside = (start, goal) if start.network else (goal, start)
        message = f"{inside} is in network {inside.network} and {outside} in none"
        raise UsageError(message, "name two hosts in networks, or two outside of any")
    if start.network != goal.network and start.subnet and goal.place.address in start.subnet:
        message = f"{goal.place.address} of {goal} is in {start}'s own subnet, and in network {goal.network}"
        raise UsageError(message, "name two hosts of one network, or of two that are routed to each other")
    if sport is not None and start.vlan:
        raise UsageError(f"{start} is in a VLAN and has no RDMA device", "omit --sport")


def _station(fabric: Fabric, name: str) -> Station:
    node, _, interface = name.partition(":")
    hosts = [host.name for host in fabric.topology.hosts]
    if node not in hosts:
        if node in fabric.plan:
            raise UsageError(f"{node} is a switch", f"hosts are {', '.join(hosts)}")
        raise UsageError(
            f"no host {node!r} in fabric {fabric.name}", suggest(node, hosts, f"there is {', '.join(hosts)}")
        )
    stations = stations_of(node, fabric.plan[node], plan_overlay(fabric.topology))
    if not stations:
        raise UsageError(f"{node} has no address", "add subnets to its network")
    chosen = interface or next(iter(stations))
    if chosen not in stations:
        raise UsageError(f"no interface {interface!r} on {node}", f"it has {', '.join(stations)}")
    return stations[chosen]
