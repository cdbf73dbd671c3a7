"""The time of a scrape of ``rocelab metrics``: 40 switches, 64 hosts and 320 links, natively.

./scripts/bench metrics [--json] [--repeat N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stdout, table
from lab.kernel.process import time_source
from lab.model.load import load_topology
from lab.telemetry.metrics.exposition import render
from lab.telemetry.metrics.live_metrics import LiveMetrics
from lab.telemetry.metrics.routing_metrics import RoutingMetrics
from lab.units import format_time
from tests.bench.telemetry.sampler import BIG

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 0.2
"""Seconds that the fastest scrape may take: that of a moment in which nothing else ran."""


def seconds(work: Callable[[], object], repeat: int) -> list[float]:
    """How long each run took."""
    found = []
    for _ in range(repeat):
        began = time.monotonic()
        work()
        found.append(time.monotonic() - began)
    return found


def measure(repeat: int) -> dict[str, Any]:
    """The times of scrapes, and their size."""
    fabric, _ = lifecycle.up(load_topology(BIG, reaction=time_source.reaction()), registry.backend(registry.DEFAULT))
    try:
        routing = RoutingMetrics({node.name: fabric.router(node.name) for node in fabric.topology.switches})
        routing.look()
        daemons = seconds(routing.look, repeat)
        routing.close()
        with LiveMetrics(fabric) as metrics:
            scrape = metrics.scrape()
            text = seconds(lambda: render(scrape), repeat)
            began = time.process_time()
            whole = seconds(lambda: render(metrics.scrape()), repeat)
            cpu = (time.process_time() - began) / repeat
        return {
            "series": sum(len(samples.values) for samples in scrape), "bytes": len(render(scrape)),
            "scrape_min": min(whole), "scrape_median": statistics.median(whole), "scrape_max": max(whole), "cpu": cpu,
            "daemons_median": statistics.median(daemons), "text_median": statistics.median(text),
        }  # fmt: skip
    finally:
        lifecycle.down(fabric.state)


def show(told: dict[str, Any]) -> None:
    """The figures for people."""
    times = {name: format_time(told[name]) for name in told if name not in {"series", "bytes"}}
    rows = [
        ("series", f"{told['series']}, {told['bytes']} bytes"),
        (
            "a scrape",
            f"{times['scrape_min']} at least, {times['scrape_median']} median, {times['scrape_max']} at most",
        ),
        ("of it FRR's answers", times["daemons_median"]),
        ("of it the text", times["text_median"]),
        ("allowed", format_time(MOST)),
    ]
    stdout.print(table("metrics of 104 nodes", ("what", "measured"), rows))


def main() -> int:
    """Measure and print; 1 when it takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    told = measure(asked.repeat)
    if asked.json:
        stdout.print_json(json.dumps(told))
    else:
        show(told)
    return int(told["scrape_min"] > MOST)


if __name__ == "__main__":
    sys.exit(main())
