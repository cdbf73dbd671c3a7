"""What the emulated port costs: packets that a switch forwards, next to bare interfaces. In the VM, as root.

    ./scripts/bench port [--json] [--rounds N] [--seconds N]

One switch forwards small packets of a lossless class between two hosts, once with nothing on its interfaces and once
with emulated ports that do not shape; both take turns, and the medians are compared. To reach: 75%.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.cli.output import stderr, stdout, table
from lab.dataplane import configure, plant
from lab.dataplane.numbering import Numbering
from lab.errors import LabError
from lab.kernel import pins, process
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from tests.bench import forwarding

if TYPE_CHECKING:
    from lab.model.qos.port import NodeQos

NAME: Final = "bench-port"
TARGET: Final = 0.75
_LOSSLESS_TOS: Final = 26 << 2 | 2
_TOPOLOGY: Final = """
name: bench-port
qos: lab
nodes: {s1: {role: leaf}, h1: {role: host, rdma: false}, h2: {role: host, rdma: false}}
links: [{ends: [h1, s1]}, {ends: [h2, s1]}]
"""


def unshaped() -> NodeQos:
    """A switch of the laboratory's profile whose links have no rate."""
    qos = resolve(load_topology(_TOPOLOGY))[forwarding.PORTS.node]
    return replace(qos, ports={name: replace(port, rate=0) for name, port in qos.ports.items()})


def forward(rounds: int, seconds: float) -> dict[str, list[float]]:
    """Packets per second, bare and through emulated ports, in turns."""
    qos = unshaped()
    figures: dict[str, list[float]] = {"bare_pps": [], "port_pps": []}
    process.run(["modprobe", "pktgen"])
    with ExitStack() as stack:
        stack.callback(pins.unpin, pins.folder_of(NAME))
        plant.load(NAME, Numbering({forwarding.PORTS.node: forwarding.PORTS}))
        configure_switch(qos)
        programs = stack.enter_context(plant.programs(NAME))
        bare = stack.enter_context(forwarding.line("bare", None, None))
        port = stack.enter_context(forwarding.line("port", qos, programs))
        for number in range(rounds):
            stderr.print(f"round {number + 1} of {rounds}", highlight=False)
            for key, line in (("bare_pps", bare), ("port_pps", port)):
                figures[key].append(line.packets_per_second(seconds, _LOSSLESS_TOS))
    return figures


def configure_switch(qos: NodeQos) -> None:
    """Write the switch's records."""
    maps = plant.open_plant(NAME)
    maps.nodes[0] = configure.node_record(qos, forwarding.PORTS)
    for interface, port in qos.ports.items():
        maps.config[forwarding.PORTS.port(interface)] = configure.port_record(port, forwarding.PORTS, forwarding.MAC)


def measure(rounds: int, seconds: float) -> dict[str, object]:
    """All figures, and the ratio that has a target."""
    figures = forward(rounds, seconds)
    ratio = statistics.median(figures["port_pps"]) / statistics.median(figures["bare_pps"])
    return {**figures, "ratio": ratio, "target": TARGET}


def show(measured: dict[str, object]) -> None:
    """A row per side with all rounds, and the ratio of the medians."""
    rows = []
    for title, key in (("bare veth", "bare_pps"), ("emulated port, rate 0", "port_pps")):
        values = measured[key]
        assert isinstance(values, list)
        rows.append((title, f"{statistics.median(values):,.0f}", ", ".join(f"{value:,.0f}" for value in values)))
    stdout.print(table("Packets per second through one switch", ("", "median", "rounds"), rows))
    stdout.print(f"the port reaches {measured['ratio']:.0%} of bare (to reach: {TARGET:.0%})", highlight=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench port", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    wanted = parser.parse_args()
    measured = measure(wanted.rounds, wanted.seconds)
    if wanted.json:
        json.dump(measured, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(measured)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
