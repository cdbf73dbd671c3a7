"""Files for the container of a node: FRR's files of a switch, and a script for addresses, routes and shapers.

They are computed like those of namespaces: ``frr_config.render``, the addressing plan, routes and shapers of
``model``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.model.host_routes import host_routes
from lab.model.hosts import hosts_file
from lab.model.shaping import delay_limit, shaper_burst, shaper_limit
from lab.model.sysctls import HASH_SEED
from lab.routing.frr_config.render import render_router
from lab.units import WIRE_OVERHEAD, exact_rate, exact_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Interface, IPv6Interface

    from lab.model.addressing import NodePlan
    from lab.model.host_routes import HostRoute
    from lab.model.topology import Link, Topology

FRR_FOLDER: Final = "/etc/frr"
SCRIPT: Final = "/etc/rocelab/start.sh"
HOSTS: Final = "/etc/rocelab/hosts"
START: Final = f"sh {SCRIPT}"
NAMES: Final = f"sh -c 'cat {HOSTS} > /etc/hosts'"
SOCKETS: Final = "/run/frr"
"""The folder with the sockets and pid files of FRR's daemons."""
OWN_LINES: Final = "! what frr: of the topology says"
"""The comment above the user's own lines in an frr.conf."""

_OPTIONAL: Final = ("bgpd", "bfdd", "staticd")
_MANAGEMENT: Final = "eth0"


@dataclass(frozen=True, slots=True)
class Sort:
    """Differences between containers: those with containerlab's own links, and those with links made by others."""

    management: bool = False
    """Whether nodes have a management interface, with a default route that is not the fabric's."""
    macs: bool = False
    """Whether the script sets MAC addresses; containerlab sets those of its own links."""


def files_of(topology: Topology, plan: Mapping[str, NodePlan], node: str, sort: Sort) -> dict[str, str]:
    """Return the files of a node by their paths in its container, without the hosts file."""
    found = {SCRIPT: start_script(topology, plan[node], sort)}
    if plan[node].node.role.is_switch:
        found |= _frr(topology, plan, node)
    return found


def names_file(plan: Mapping[str, NodePlan]) -> str:
    """Return the names of all nodes, for ``/etc/hosts`` of each."""
    return hosts_file(plan)


def _frr(topology: Topology, plan: Mapping[str, NodePlan], node: str) -> dict[str, str]:
    config = render_router(topology, plan, node)
    own = topology.frr.get(node, "")
    behind = f"!\n{OWN_LINES}\n{own}" if own else ""
    optional = dict.fromkeys([*_OPTIONAL, *(daemon for daemon in config.files if daemon != "zebra")])
    runs = {daemon: "yes" if daemon in config.files else "no" for daemon in optional}
    daemons = [
        "zebra=yes",
        *(f"{daemon}={answer}" for daemon, answer in runs.items()),
        "vtysh_enable=yes",
        'frr_profile="datacenter"',
        *(f'{daemon}_options="-A 127.0.0.1"' for daemon in ("zebra", *optional)),
    ]
    return {
        f"{FRR_FOLDER}/frr.conf": config.integrated + behind,
        f"{FRR_FOLDER}/daemons": "".join(f"{line}\n" for line in daemons),
        f"{FRR_FOLDER}/vtysh.conf": "service integrated-vtysh-config\n",
    }


def start_script(topology: Topology, plan: NodePlan, sort: Sort) -> str:
    """Return an sh(1) script that sets addresses, routes, rates and delays of a node; it is idempotent."""
    return "\n".join(["#!/bin/sh", "set -eu", *_lines(topology, plan, sort)]) + "\n"


def _lines(topology: Topology, plan: NodePlan, sort: Sort) -> Iterator[str]:
    yield f"cat {HOSTS} > /etc/hosts"
    if plan.hash_seed:
        knob = f"/proc/sys/{HASH_SEED}"
        yield f"if [ -e {knob} ]; then echo {plan.hash_seed} > {knob}; fi"
    if sort.management:
        yield f"for family in 4 6; do ip -$family route delete default dev {_MANAGEMENT} 2> /dev/null || :; done"
    yield from (_address(loopback, "lo") for loopback in plan.loopbacks)
    for link in topology.links_of(plan.node.name):
        yield from _interface(plan, link, sort)
    for route in host_routes(plan):
        yield from _route(route)
    yield from _shapers(topology, plan)


def _interface(plan: NodePlan, link: Link, sort: Sort) -> Iterator[str]:
    port = plan.interfaces[link.end_at(plan.node.name).interface]
    if sort.macs:
        yield f"ip link set dev {port.name} down"
        yield f"ip link set dev {port.name} address {port.mac}"
    yield f"ip link set dev {port.name} mtu {link.mtu} up"
    if port.address is not None:
        yield _address(port.address, port.name)


def _address(address: IPv4Interface | IPv6Interface, interface: str) -> str:
    return f"ip address replace {address} dev {interface}{'' if address.version == 4 else ' nodad'}"


def _route(route: HostRoute) -> Iterator[str]:
    ip = f"ip -{route.gateway.version}"
    way = f"default via {route.gateway} dev {route.interface}"
    yield f"{ip} route replace {way} proto static metric {route.metric}"
    if route.table:
        rule = f"from {route.source} table {route.table} priority {route.table}"
        yield f"{ip} route replace {way} proto static table {route.table}"
        yield f"{ip} rule delete {rule} 2> /dev/null || :"
        yield f"{ip} rule add {rule}"


def _shapers(topology: Topology, plan: NodePlan) -> Iterator[str]:
    yield 'command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }'
    for link in topology.links_of(plan.node.name):
        device = f"tc qdisc replace dev {link.end_at(plan.node.name).interface}"
        burst = round(shaper_burst(link.rate, link.mtu) * link.rate / 8)
        sums = f"burst {burst} limit {shaper_limit(link.rate, link.mtu)}"
        rate = exact_rate(link.rate)
        yield f"{device} root handle 1: tbf rate {rate} {sums} overhead {WIRE_OVERHEAD} linklayer ethernet"
        if link.delay:
            limit = delay_limit(link.delay, link.rate, link.mtu)
            yield f"{device} parent 1:1 handle 2: netem delay {exact_time(link.delay)} limit {limit}"
