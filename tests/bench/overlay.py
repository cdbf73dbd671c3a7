"""How fast an overlay comes up: its routes and MACs everywhere, and how that grows with the leaves.

    ./scripts/bench overlay [--bridged] [--json] [--sizes 8x8 ...]

A size is spines x leaves. 64 hosts, as many on each leaf, are dealt out among 16 networks of 4 tenants, whose leaves
have their gateways; ``--bridged`` has the networks alone, for a kernel without VRFs. Up is done when each leaf floods
to all others of its networks and has all subnets of its tenants. Then each host sends once. MACs are everywhere when
each leaf has those of its networks' other hosts in the kernel's forwarding database, behind the right VTEPs. The
database is read in turns; the figure is as exact as the last turn was long.

Beside it, in the same run: the same fabric without its overlay; and FRR's own floor, as in ``bench bringup``.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stderr, stdout, table
from lab.errors import LabError, OperationFailed
from lab.model.load import load_topology
from lab.model.overlay.plan import plan_overlay
from lab.routing.evpn import routes_at
from lab.units import format_time
from tests.bench.bringup import cpu_time, exponent, frr_floor, proportional_size, start_cost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace
    from lab.model.overlay.node_plan import Interface
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Topology

SIZES: Final = ("8x8", "8x16", "8x32")
NAME: Final = "bench"
HOSTS: Final = 64
TENANTS: Final = 4
NETWORKS: Final = 4
"""Networks of each tenant."""
_PATIENCE: Final = 300.0
_DISCARD: Final = 9
"""The discard port (RFC 863), on which no program listens."""


@dataclass(frozen=True)
class Run:
    """One fabric, built, spoken in and removed. Seconds, and MiB of memory per switch."""

    without: float
    """``up`` of the same fabric without its overlay."""
    plumbing: float
    daemons: float
    convergence: float
    up: float
    macs: float
    """From when the first host speaks until every leaf has every MAC."""
    look: float
    """How long the last look at all leaves that still lacked any took."""
    down: float
    frr_floor: float
    routes: int
    """EVPN routes that leaves have of others, all leaves together."""
    switch_mib: float


def topology_of(size: str, *, bridged: bool = False) -> Topology:
    """The fabric in memory; InvalidInput where 64 hosts cannot be shared out among the leaves."""
    spines, leaves = map(int, size.split("x"))
    shape = {"shape": "leaf-spine", "spines": spines, "leaves": leaves, "hosts_per_leaf": HOSTS // leaves}
    tenants = {} if bridged else {f"tenant{number}": {"l3vni": 50_000 + number} for number in range(1, TENANTS + 1)}
    spec = {
        "name": NAME,
        "defaults": {"mtu": 4300},
        "generate": {**shape, "fabric_mtu": 4350, "rdma": False},
        "overlay": {"tenants": tenants, "networks": dict(_networks(bridged=bridged))},
    }
    return load_topology(json.dumps(spec))


def _networks(*, bridged: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Network n has host n, and every sixteenth after it."""
    count = TENANTS * NETWORKS
    for number in range(1, count + 1):
        hosts = [f"h{host}" for host in range(number, HOSTS + 1, count)]
        network = {
            "vlan": 10 + number,
            "l2vni": 10_000 + number,
            "subnets": [f"10.{number}.0.0/24"],
            "untagged": hosts,
        }
        routed = {"tenant": f"tenant{(number - 1) // NETWORKS + 1}", "gateways": [f"10.{number}.0.254"]}
        yield f"lan{number}", network if bridged else network | routed


def measure(topology: Topology, starting: float) -> Run:
    """The fabric without its overlay, and then with it; ``starting`` is of one switch."""
    overlay = plan_overlay(topology)
    assert overlay is not None
    backend = registry.backend(registry.DEFAULT)
    underlay, bare = lifecycle.up(replace(topology, overlay=None), backend, timeout=_PATIENCE)
    lifecycle.down(underlay.state)
    fabric, watch = lifecycle.up(topology, backend, timeout=_PATIENCE)
    began = time.monotonic()
    _speak(fabric, overlay)
    look = _await_macs(fabric, expected_macs(fabric, overlay))
    macs = time.monotonic() - began
    pids = [pid for switch in topology.switches for pid in fabric.router(switch.name).pids().values()]
    busy, memory = sum(map(cpu_time, pids)), sum(map(proportional_size, pids))
    routes = sum(not route.local for leaf in overlay.leaves for route in routes_at(fabric.router(leaf)))
    began = time.monotonic()
    lifecycle.down(fabric.state)
    return Run(
        without=sum(bare.seconds.values()),
        plumbing=watch.seconds["plumbing"],
        daemons=watch.seconds["daemons"],
        convergence=watch.seconds["convergence"],
        up=sum(watch.seconds.values()),
        macs=macs,
        look=look,
        down=time.monotonic() - began,
        frr_floor=frr_floor(busy, len(topology.switches) * starting),
        routes=routes,
        switch_mib=memory / len(topology.switches) / 2**20,
    )


def _speak(fabric: Fabric, overlay: OverlayPlan) -> None:
    """Every host broadcasts a datagram."""
    for host, (interface, *_) in overlay.hosts.items():
        address = interface.addresses[0].address
        fabric.namespace(host).inside(partial(_broadcast, address))


def _broadcast(address: Interface) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(b"", (str(address.network.broadcast_address), _DISCARD))


def expected_macs(fabric: Fabric, overlay: OverlayPlan) -> dict[str, dict[str, str]]:
    """By leaf: the MACs of its networks' hosts that are on other leaves, and the VTEPs that these are behind."""
    at = {host: _leaf_of(fabric.topology, host) for host in overlay.hosts}
    found: dict[str, dict[str, str]] = {leaf: {} for leaf in overlay.leaves}
    for leaf, own in overlay.leaves.items():
        networks = {network.name for network in own.networks}
        for host, (interface, *_) in overlay.hosts.items():
            if interface.network in networks and at[host] != leaf:
                mac = fabric.plan[host].interfaces[interface.parent].mac
                found[leaf][mac] = str(fabric.plan[at[host]].vtep)
    return found


def _leaf_of(topology: Topology, host: str) -> str:
    (link,) = topology.links_of(host)
    return link.other(link.end_at(host)).node


def _await_macs(fabric: Fabric, expected: Mapping[str, Mapping[str, str]]) -> float:
    """Seconds that the last look took; OperationFailed names the leaves that lack MACs for too long."""
    lacking, deadline = list(expected), time.monotonic() + _PATIENCE
    while True:
        began = time.monotonic()
        lacking = [
            leaf for leaf in lacking if not expected[leaf].items() <= _remote_macs(fabric.namespace(leaf)).items()
        ]
        if not lacking:
            return time.monotonic() - began
        if time.monotonic() > deadline:
            raise OperationFailed(
                f"{', '.join(lacking)} lack MACs after {_PATIENCE:.0f} s", "see rocelab status --evpn"
            )


def _remote_macs(leaf: Namespace) -> dict[str, str]:
    """By MAC the VTEP that it is behind, as bridge(8) has it."""
    entries = json.loads(leaf.run(["bridge", "-json", "fdb", "show"]).stdout or "[]")
    return {entry["mac"]: entry["dst"] for entry in entries if "dst" in entry}


def as_data(size: str, topology: Topology, run: Run) -> dict[str, Any]:
    """One size's figures with their ratios."""
    overlay = plan_overlay(topology)
    ratios = {
        "up_to_without": run.up / run.without,
        "up_to_frr": (run.up + run.macs) / run.frr_floor,
        "routes_per_s": run.routes / (run.convergence + run.macs),
    }
    leaves = len(overlay.leaves) if overlay else 0
    return {"size": size, "nodes": len(topology.nodes), "leaves": leaves} | asdict(run) | ratios


_ROWS: Final = (
    ("up without the overlay", "without", "s"),
    ("plumbing", "plumbing", "s"),
    ("daemons", "daemons", "s"),
    ("convergence", "convergence", "s"),
    ("up, converged", "up", "s"),
    ("all MACs everywhere", "macs", "s"),
    ("of which the last look", "look", "s"),
    ("down", "down", "s"),
    ("FRR's own floor", "frr_floor", "s"),
    ("up / up without the overlay", "up_to_without", "x"),
    ("up and MACs / FRR's own floor", "up_to_frr", "x"),
    ("EVPN routes, all leaves", "routes", ""),
    ("EVPN routes a second", "routes_per_s", ""),
    ("memory of a switch", "switch_mib", "MiB"),
)
_GROWING: Final = ("up", "macs", "frr_floor", "routes")


def show(measured: list[dict[str, Any]]) -> None:
    """A row per figure, a column per size."""
    columns = ["", *(f"{entry['nodes']} nodes, {entry['leaves']} leaves" for entry in measured)]
    rows = [(title, *(_cell(entry[key], unit) for entry in measured)) for title, key, unit in _ROWS]
    stdout.print(table("overlay", columns, rows))
    for title, key, _ in _ROWS:
        if key in _GROWING and len(measured) > 1:
            growth = exponent(measured, key, over="leaves")
            stdout.print(f"{title}: grows with leaves to the power of {growth:.2f}", highlight=False)


def _cell(value: float, unit: str) -> str:
    if unit == "s":
        return format_time(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f} {unit}".strip()


def main() -> None:
    """Measure every size and print the figures, also after a failure or an interrupt."""
    parser = argparse.ArgumentParser(prog="scripts/bench overlay", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bridged", action="store_true", help="networks without tenants and gateways")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="SxL")
    wanted = parser.parse_args()
    topologies = {size: topology_of(size, bridged=wanted.bridged) for size in wanted.sizes}
    for topology in topologies.values():
        registry.backend(registry.DEFAULT).check(topology)
    measured: list[dict[str, Any]] = []
    starting = start_cost()
    try:
        for size, topology in topologies.items():
            stderr.print(f"{size}: {len(topology.nodes)} nodes, {len(topology.links)} links", highlight=False)
            measured.append(as_data(size, topology, measure(topology, starting)))
    finally:
        if wanted.json:
            sys.stdout.write(json.dumps(measured, indent=2) + "\n")
        elif measured:
            show(measured)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
