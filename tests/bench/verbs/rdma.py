"""The cost of rocelab to RDMA: ``rocelab rdma bw`` next to a bare ``ib_write_bw`` over the same hops, in one run.

    ./scripts/bench rdma [--json] [--rounds N] [--seconds N]

Both cross three routers and four links of the same rate and MTU, with the same message size and path MTU; they take
turns, and the medians are compared. To reach: 90%.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stderr, stdout, table
from lab.kernel.process import process
from lab.model.load import load_topology
from lab.units import format_rate
from tests.bench.bench_command import run_bench
from tests.bench.verbs import bare_rdma

NAME: Final = "bench"
RATE: Final = 10**9
MTU: Final = 9000
SIZE: Final = 65536
TARGET: Final = 0.9
_TOPOLOGY: Final = f"""
name: {NAME}
defaults: {{rate: {RATE}, mtu: {MTU}}}
generate: {{shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 1}}
"""


def rocelab(seconds: int) -> float:
    """Payload bit/s of the real command, from h1 to h2."""
    options = ["--size", str(SIZE), "--duration", str(seconds), "--fabric", NAME, "--json"]
    argv = [sys.executable, "-m", "lab", "rdma", "bw", "h1", "h2", *options]
    return float(json.loads(process.run(argv, timeout=300).stdout)["pairs"][0]["goodput_bps"])


def bare(seconds: int) -> float:
    """Payload bit/s of perftest alone, measured for as long, a second before and after left out as well."""
    length = ["--duration", str(seconds + 2), "--margin", "1", "--CPU-freq"]
    return bare_rdma.goodput([*length, "--size", str(SIZE), "--tclass", "106", "--qp-timeout", "18"])


def measure(rounds: int, seconds: int) -> dict[str, object]:
    """Both, in turns, while both sets of namespaces are there."""
    figures: dict[str, list[float]] = {"rocelab_bps": [], "bare_bps": []}
    fabric, _ = lifecycle.up(load_topology(_TOPOLOGY), registry.backend(registry.DEFAULT))
    try:
        with bare_rdma.chain(RATE, MTU):
            for number in range(rounds):
                stderr.print(f"round {number + 1} of {rounds}", highlight=False)
                figures["bare_bps"].append(bare(seconds))
                figures["rocelab_bps"].append(rocelab(seconds))
    finally:
        lifecycle.down(fabric.state)
    ratio = statistics.median(figures["rocelab_bps"]) / statistics.median(figures["bare_bps"])
    return {**figures, "ratio": ratio, "target": TARGET}


def show(measured: dict[str, object]) -> None:
    """A row per side with all rounds, and the ratio of the medians."""
    rows = []
    for title, key in (("bare ib_write_bw", "bare_bps"), ("rocelab rdma bw", "rocelab_bps")):
        values = measured[key]
        assert isinstance(values, list)
        rows.append((title, format_rate(round(statistics.median(values))), ", ".join(map(_rate, values))))
    stdout.print(table("RDMA write, 64 KiB, h1 to h2 by three routers", ("", "median", "rounds"), rows))
    stdout.print(f"rocelab reaches {measured['ratio']:.0%} of bare (to reach: {TARGET:.0%})", highlight=False)


def _rate(value: float) -> str:
    return format_rate(round(value))


if __name__ == "__main__":
    run_bench("rdma", __doc__, {"rounds": (int, 3), "seconds": (int, 5)}, measure, show)
