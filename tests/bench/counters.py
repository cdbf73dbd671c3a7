"""The time of one reading of all counters of 40 switches (104 nodes, 320 links), without root.

    python -m tests.bench.counters

The maps are mapped into memory, and reading them takes no system call; so memory of the same size stands for them.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Final

import numpy as np

from lab.dataplane import counters, port_layout
from lab.dataplane.numbering import number_ports
from lab.dataplane.port_maps import PortMaps
from lab.model.load import load_topology
from lab.units import format_time

ROUNDS: Final = 20
TARGET: Final = 0.1
"""Seconds."""
_TOPOLOGY: Final = "name: big\ngenerate: {shape: leaf-spine, spines: 8, leaves: 32, hosts_per_leaf: 2, rdma: false}\n"


def measure() -> list[float]:
    """Seconds of each reading of every switch."""
    topology = load_topology(_TOPOLOGY)
    numbering = number_ports(topology)
    maps = PortMaps(
        ports=np.ones(numbering.size, port_layout.PORT),
        nodes=np.ones(len(numbering.nodes), port_layout.NODE),
        events=np.zeros(0, port_layout.EVENT),
        event_count=np.zeros(1, port_layout.EVENT_COUNT),
        limiters=np.zeros(0, port_layout.LIMITER),
    )
    switches = [numbering.nodes[switch.name] for switch in topology.switches]
    found = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        for switch in switches:
            counters.read(maps, switch)
        found.append(time.monotonic() - began)
    return found


def main() -> None:
    """Measure and print."""
    found = measure()
    median, worst = format_time(statistics.median(found)), format_time(max(found))
    sys.stdout.write(f"counters of 40 switches: {median}, at most {worst} (to reach: {format_time(TARGET)})\n")


if __name__ == "__main__":
    main()
