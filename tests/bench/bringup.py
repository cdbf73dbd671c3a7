"""How fast a fabric comes up and goes, next to the floor and to Mininet, in one run on one machine.

    ./scripts/bench bringup|scale [--json] [--repeat N] [--sizes 2x4x2 ...]

A size is spines x leaves x hosts per leaf. Up is done when every leaf has every prefix over all its spines. The
floor is the namespaces and veths of the same graph by ``ip -batch``; Mininet builds the same graph without routing.
FRR's own floor is the CPU time of its daemons until convergence and of the programs that start them, divided by the
number of CPUs. No program that starts these daemons is faster. With several sizes the exponent shows how a figure
grows with the number of nodes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stderr, stdout, table
from lab.errors import LabError
from lab.model.load import load_topology
from lab.units import format_time
from tests.bench import floor

if TYPE_CHECKING:
    from lab.model.topology import Topology

SIZES = ("2x4x2", "4x8x4", "8x32x2")
NAME = "bench"
_PATIENCE: Final = 300.0
"""Seconds to converge: how long it takes is what is measured."""


@dataclass(frozen=True)
class Run:
    """One fabric, built and removed. Seconds, and MiB of memory per switch."""

    floor_up: float
    floor_down: float
    mininet_up: float | None
    mininet_down: float | None
    plumbing: float
    daemons: float
    convergence: float
    up: float
    down: float
    frr_floor: float
    switch_mib: float
    switch_processes: float


def topology_of(size: str) -> Topology:
    """A leaf-spine fabric of plain Ethernet hosts, in memory."""
    spines, leaves, hosts = map(int, size.split("x"))
    shape = f"shape: leaf-spine, spines: {spines}, leaves: {leaves}, hosts_per_leaf: {hosts}, rdma: false"
    return load_topology(f"name: {NAME}\ngenerate: {{{shape}}}\n")


def measure(topology: Topology, starting: float) -> Run:
    """The floor, Mininet, then rocelab, of the same graph; ``starting`` is of one switch."""
    bare, rival = floor.ip_batch(topology), floor.mininet(topology)
    began = time.monotonic()
    fabric, watch = lifecycle.up(topology, registry.backend(registry.DEFAULT), timeout=_PATIENCE)
    up = time.monotonic() - began
    pids = [pid for switch in fabric.topology.switches for pid in fabric.router(switch.name).pids().values()]
    busy, memory = sum(map(cpu_time, pids)), sum(map(proportional_size, pids))
    switches = len(fabric.topology.switches)
    began = time.monotonic()
    lifecycle.down(fabric.state)
    return Run(
        floor_up=bare.up,
        floor_down=bare.down,
        mininet_up=rival.up if rival else None,
        mininet_down=rival.down if rival else None,
        plumbing=watch.seconds["plumbing"],
        daemons=watch.seconds["daemons"],
        convergence=watch.seconds["convergence"],
        up=up,
        down=time.monotonic() - began,
        frr_floor=frr_floor(busy, switches * starting),
        switch_mib=memory / switches / 2**20,
        switch_processes=len(pids) / switches,
    )


def frr_floor(busy: float, starting: float) -> float:
    """Seconds in which all CPUs do the work of the daemons and of the programs that start them."""
    return (busy + starting) / len(os.sched_getaffinity(0))


def start_cost() -> float:
    """CPU seconds of the programs that start a switch's daemons, each until it forks the one that stays.

    They read FRR's commands and models, of which their children's own time knows nothing: each daemon of a small
    fabric is started once more.
    """
    fabric, _ = lifecycle.up(topology_of("1x1x1"), registry.backend(registry.DEFAULT), timeout=_PATIENCE)
    try:
        router = fabric.router("leaf1")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for daemon in router.pids():
            router.signal(daemon, Signals.SIGKILL)
            router.start_again(daemon)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        lifecycle.down(fabric.state)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def cpu_time(pid: int) -> float:
    """Seconds that a process has computed, its ended children too (proc_pid_stat(5), 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def proportional_size(pid: int) -> int:
    """Bytes; pages that processes share are divided among them (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def median(runs: list[Run]) -> Run:
    """The median of each figure by itself."""
    middle: dict[str, Any] = {}
    for field in fields(Run):
        values = [value for run in runs if (value := getattr(run, field.name)) is not None]
        middle[field.name] = statistics.median(values) if values else None
    return Run(**middle)


def as_data(size: str, topology: Topology, run: Run) -> dict[str, Any]:
    """One size's figures with the ratios that have a target."""
    ratios = {
        "plumbing_to_floor": run.plumbing / run.floor_up,
        "up_to_mininet": run.up / run.mininet_up if run.mininet_up else None,
        "down_to_mininet": run.down / run.mininet_down if run.mininet_down else None,
        "up_to_frr": run.up / run.frr_floor,
    }
    return {"size": size, "nodes": len(topology.nodes), "links": len(topology.links)} | asdict(run) | ratios


_ROWS = (
    ("floor up", "floor_up", "s"),
    ("floor down", "floor_down", "s"),
    ("Mininet up, no routing", "mininet_up", "s"),
    ("Mininet down", "mininet_down", "s"),
    ("rocelab plumbing", "plumbing", "s"),
    ("rocelab daemons", "daemons", "s"),
    ("rocelab convergence", "convergence", "s"),
    ("rocelab up, converged", "up", "s"),
    ("rocelab down", "down", "s"),
    ("plumbing / floor", "plumbing_to_floor", "x"),
    ("up / Mininet up", "up_to_mininet", "x"),
    ("down / Mininet down", "down_to_mininet", "x"),
    ("FRR's own floor", "frr_floor", "s"),
    ("up / FRR's own floor", "up_to_frr", "x"),
    ("memory of a switch", "switch_mib", "MiB"),
    ("processes of a switch", "switch_processes", ""),
)
_GROWING: Final = ("up", "down", "frr_floor", "plumbing")


def show(measured: list[dict[str, Any]]) -> None:
    """A row per figure, a column per size."""
    columns = ["", *(f"{entry['nodes']} nodes, {entry['links']} links" for entry in measured)]
    rows = [(title, *(_cell(entry[key], unit) for entry in measured)) for title, key, unit in _ROWS]
    stdout.print(table("bring-up", columns, rows))
    for title, key, _ in _ROWS:
        if key in _GROWING and len(measured) > 1:
            stdout.print(f"{title}: grows with nodes to the power of {exponent(measured, key):.2f}", highlight=False)


def exponent(measured: list[dict[str, Any]], key: str, *, over: str = "nodes") -> float:
    """The slope of a figure over the number of nodes, or of another size, in logarithms: 1 is in proportion."""
    sizes, figures = ([math.log(entry[name]) for entry in measured] for name in (over, key))
    return statistics.linear_regression(sizes, figures).slope


def _cell(value: object, unit: str) -> str:
    if not isinstance(value, float):
        return "not installed"
    return format_time(value) if unit == "s" else f"{value:.2f} {unit}".strip()


def main() -> None:
    """Measure every size and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench bringup", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=1, help="take the median of so many runs")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="SxLxH")
    wanted = parser.parse_args()
    topologies = {size: topology_of(size) for size in wanted.sizes}
    for topology in topologies.values():  # a size that cannot be had is said before minutes are spent on the others
        registry.backend(registry.DEFAULT).check(topology)
    measured: list[dict[str, Any]] = []
    starting = start_cost()
    try:
        for size, topology in topologies.items():
            stderr.print(f"{size}: {len(topology.nodes)} nodes, {len(topology.links)} links", highlight=False)
            runs = [measure(topology, starting) for _ in range(wanted.repeat)]
            measured.append(as_data(size, topology, median(runs)))
    finally:  # a machine for which the last size is too much has measured the others
        _tell(measured, as_json=wanted.json)


def _tell(measured: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        json.dump(measured, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif measured:
        show(measured)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
