"""The cost of the recorder's sampler, and how late it is.

    ./scripts/bench sampler [--json]                what it costs of an incast's goodput; in the VM where needed
    ./scripts/bench sampler --switches [--json]     natively: 40 switches and 320 links, at 50 Hz

Goodput is of rounds in turn, without a recording and with one, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from lab.backends import lifecycle, registry
from lab.backends.lifecycle import open_fabric
from lab.cli.kit.output import stdout, table
from lab.kernel.process import time_source
from lab.model.load import load_topology
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.recording_summary import summarise
from lab.telemetry.record.recorder import DEFAULT_HZ, Recorder
from lab.units import format_rate, format_time
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json

FABRIC: Final = "incast"
MOST: Final = 0.05
"""The share of goodput that it may cost."""
BIG: Final = "name: big\ngenerate: {shape: leaf-spine, spines: 8, leaves: 32, hosts_per_leaf: 2, rdma: false}\n"
"""104 nodes, 40 of them switches, and 320 links."""
BIG_HZ: Final = 50.0
SECONDS: Final = 10.0


def lateness(folder: Path) -> dict[str, Any]:
    """Return how many samples a recording has and skipped, how late they were, and the time that one took."""
    recording = Recording.open(folder)
    told = summarise(recording, 1)
    took = statistics.median(int(each) for each in recording.samples["took"]) / 1e9
    return {
        "hz": recording.hz, "samples": told.samples, "skipped": recording.skipped,
        "late_mean": told.late_mean, "late_max": told.late_max, "took_median": took,
    }  # fmt: skip


def goodput() -> float:
    """Return the sum of the goodputs, in bit/s, of three hosts that write to a fourth."""
    pairs = ("--pair", "h2:h4", "--pair", "h3:h4")
    return float(sum(pair["goodput_bps"] for pair in rocelab_json("rdma", "bw", "h1", "h4", *pairs)["pairs"]))


def cost(rounds: int) -> dict[str, Any]:
    """The goodput of an incast without and with a recording at the default rate, and how late that was."""
    rocelab("up", TOPOLOGIES / f"{FABRIC}.yaml")
    scratch = Path(tempfile.mkdtemp(prefix="rocelab-"))
    try:
        without, recorded = [], []
        for number in range(rounds):
            without.append(goodput())
            with Recorder.begin(scratch / str(number), open_fabric(FABRIC), hz=DEFAULT_HZ):
                recorded.append(goodput())
        before, after = statistics.median(without), statistics.median(recorded)
        told = lateness(scratch / str(rounds - 1))
        return {"goodput_bps": before, "recorded_bps": after, "cost": 1 - after / before, **told}
    finally:
        rocelab("down", "--fabric", FABRIC)
        shutil.rmtree(scratch)


def switches(seconds: float) -> dict[str, Any]:
    """How late the samples of 40 switches and 320 plain links are."""
    fabric, _ = lifecycle.up(load_topology(BIG, reaction=time_source.reaction()), registry.backend(registry.DEFAULT))
    scratch = Path(tempfile.mkdtemp(prefix="rocelab-"))
    try:
        with Recorder.begin(scratch / "run", fabric, hz=BIG_HZ, state=False):
            time.sleep(seconds)
        return lateness(scratch / "run")
    finally:
        lifecycle.down(fabric.state)
        shutil.rmtree(scratch)


def show(told: dict[str, Any]) -> None:
    """The figures for people."""
    samples = f"{told['samples']} at {told['hz']:g} Hz, {told['skipped']} left out"
    late = f"{format_time(told['late_mean'])} on average, {format_time(told['late_max'])} at most"
    takes = f"{format_time(told['took_median'])}, {told['took_median'] * told['hz']:.1%} of a CPU"
    rows = [("samples", samples), ("late", late), ("one takes", takes)]
    if "cost" in told:
        rates = " and ".join(format_rate(round(told[name])) for name in ("goodput_bps", "recorded_bps"))
        rows.append(("goodput without, with", f"{rates}: it costs {told['cost']:.1%}, allowed are {MOST:.0%}"))
    stdout.print(table("the sampler", ("what", "measured"), rows))


def main() -> int:
    """Measure and print; 1 when it costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", action="store_true", help="40 switches, natively")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    told = switches(SECONDS) if asked.switches else cost(asked.rounds)
    if asked.json:
        stdout.print_json(json.dumps(told))
    else:
        show(told)
    return int(told.get("cost", 0.0) > MOST)


if __name__ == "__main__":
    sys.exit(main())
