"""The effect of a busy host on an incast, in the host's time and in virtual time; and the start of a VM.

    ./scripts/bench time [--json] [--loops N]

The same three writers to one, each on a VM of its own, alone and beside loops that keep the host's CPUs busy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stderr, stdout, table
from lab.units import format_rate, format_size
from lab.vm.host.qemu import Time

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "bench"
COLUMNS: Final = (
    "time",
    "host",
    "boot s",
    "up s",
    "goodput of 3",
    "XOFF to pause us: median, p99, max",
    "latest shaper ms",
    "dropped",
    "whole run s",
)


def rocelab(*words: str) -> str:
    """Run rocelab and return what it printed."""
    argv = [sys.executable, "-m", "lab", *words]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=1800).stdout


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that do nothing but use a CPU."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(kind: Time, loops: int) -> dict[str, Any]:
    """One incast on a VM of its own."""
    stderr.print(f"{kind} time beside {loops} loops", highlight=False)
    with busy(loops):
        try:
            rocelab("vm", "up", "--name", NAME, "--time", kind.value)
            boot = json.loads(rocelab("vm", "status", "--name", NAME, "--json"))["boot_s"]
            began = time.monotonic()
            said = rocelab("vm", "run", "--name", NAME, "--", "python3", "-m", "tests.bench.incast_times")
            whole = time.monotonic() - began
        finally:
            rocelab("vm", "down", "--name", NAME)
    return {"time": kind.value, "loops": loops, "boot_s": boot, "whole_s": whole, **json.loads(said)}


def row(figures: dict[str, Any]) -> tuple[object, ...]:
    """As a row of the table."""
    reaction = ", ".join(f"{ns / 1000:.1f}" for ns in figures["reaction_ns"])
    return (
        figures["time"],
        f"{figures['loops']} busy loops" if figures["loops"] else "quiet",
        figures["boot_s"],
        round(figures["up_s"], 2),
        format_rate(figures["goodput_bps"]),
        reaction,
        round(figures["late_ns"] / 1e6, 2),
        format_size(figures["dropped_bytes"]),
        round(figures["whole_s"]),
    )


def main() -> None:
    """Measure all four and print them."""
    parser = argparse.ArgumentParser(description="An incast in each kind of time, on a quiet host and on a busy one.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside it (2)")
    asked = parser.parse_args()
    runs = [measure(kind, loops) for kind in (Time.HOST, Time.VIRTUAL) for loops in (0, asked.loops)]
    if asked.json:
        print(json.dumps(runs, indent=2))
    else:
        stdout.print(table("an incast of three at 100 Mb/s", COLUMNS, [row(run) for run in runs]))


if __name__ == "__main__":
    main()
