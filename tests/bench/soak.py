"""Up and down, hundreds of times, and whether anything of the host grows by it.

    ./scripts/soak [--cycles N] [--topology FILE] [--no-rdma] [--json]

Things are counted after each cycle, and there may not be more of them at last than at first. Memory moves by itself:
it grows where the slope of all its samples is beyond three of its standard errors, and the whole over a mebibyte.

Anything that only waits to be freed is freed before: the kernel's namespaces, Python's cycles, malloc's free memory.
Page tables count if they belong to no process.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stderr, stdout, table
from lab.errors import LabError
from lab.kernel.process import process
from lab.model.load import read_topology
from tests.fabric import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
KIB: Final = 1024
LEAST: Final = 1 << 20
"""Bytes: less than this over a whole run is not told from what a host does by itself."""
_ERRORS: Final = 3
_ROWS: Final = 10
_SLAB: Final = Path("/sys/kernel/slab/net_namespace/shrink")
_STRINGS: Final = 1 << 18
"""More than the table has room for."""
_FREEING: Final = 10.0
"""Seconds in which the kernel frees namespaces that are no longer used."""
_MEMINFO: Final = {
    "SUnreclaim": "slab",
    "KernelStack": "kernel stacks",
    "Percpu": "per CPU",
}


@dataclass(frozen=True)
class Sample:
    """The host's state after a cycle."""

    things: Mapping[str, int]
    """Numbers of things that may not grow."""
    memory: Mapping[str, int]
    """Bytes."""


@dataclass(frozen=True)
class Growth:
    """How one kind of memory went."""

    per_cycle: float
    """Bytes, by least squares."""
    error: float
    """Its standard error, in bytes."""
    grows: bool


def look() -> Sample:
    """Count, and weigh."""
    host = snapshot.take()
    things = {
        "processes": len(host.processes),
        "mounts": len(host.mounts),
        "files": len(host.files),
        "links": len(host.links),
        "cgroups": sum(int(line.split()[2]) for line in _lines("/proc/cgroups")[1:]),
        "network namespaces": namespaces(),
        "open files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names are enough
        "RDMA devices": len(host.rdma),
    }
    if Path("/usr/sbin/bpftool").exists():
        things |= {
            f"BPF {what}s": len(json.loads(process.run(["bpftool", "-j", what, "show"]).stdout))
            for what in ("prog", "map")
        }
    memory = {told: int(_words("/proc/meminfo", f"{name}:")[0]) * KIB for name, told in _MEMINFO.items()}
    return Sample(things, memory | {"page tables": lost_page_tables(), "this process": own_memory()})


def namespaces() -> int:
    """Network namespaces in the kernel, when those that have ended are freed, or after all the time it may take.

    What has ended is freed when another one ends (``net_complete_free`` of net/core/net_namespace.c): one does, and
    is itself still there. And SLUB takes all of the slab that a CPU has at hand for used: it is emptied.
    """
    deadline = time.monotonic() + _FREEING
    while True:
        process.run(["unshare", "--net", "true"])
        _SLAB.write_text("1", encoding="ascii")
        found = int(_words("/proc/slabinfo", "net_namespace")[0])
        if found <= len(_in_use()) + 1 or time.monotonic() >= deadline:
            return found


def _in_use() -> set[int]:
    """Namespaces that a process or a name has, by their inodes."""
    found = set()
    for place in (*Path("/proc").glob("[0-9]*/ns/net"), *Path("/run/netns").glob("*")):
        with contextlib.suppress(OSError):  # it has ended
            found.add(place.stat().st_ino)
    return found


def lost_page_tables() -> int:
    """Bytes of page tables that no process has: all others are those of whoever else is at work on the machine."""
    owned = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, StopIteration):  # it has ended, or is the kernel's
            owned += int(_words(str(status), "VmPTE:")[0])
    return (int(_words("/proc/meminfo", "PageTables:")[0]) - owned) * KIB


def own_memory() -> int:
    """Bytes of this process that are in use.

    Python leaves cycles alone until they are a quarter of all that it has: hundreds of fabrics. malloc keeps for each
    thread what earlier ones have freed.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(_words("/proc/self/status", "VmRSS:")[0]) * KIB


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _words(path: str, first: str) -> list[str]:
    lines = (line.split() for line in _lines(path))
    return next(words[1:] for words in lines if words and words[0] == first)


def growth(octets: Sequence[int]) -> Growth:
    """The slope of samples one cycle apart, with its standard error (the textbook's simple regression)."""
    cycles = range(len(octets))
    slope, start = statistics.linear_regression(cycles, octets)
    left = sum((value - start - slope * at) ** 2 for at, value in enumerate(octets)) / (len(octets) - 2)
    error = (left / (statistics.pvariance(cycles) * len(octets))) ** 0.5
    return Growth(slope, error, slope > _ERRORS * error and slope * len(octets) > LEAST)


def judged(samples: Sequence[Sample]) -> list[str]:
    """A line for each thing that there are more of and each memory that grows.

    The kernel frees some things later: of the last tenth of all samples the least counts, of the first the most.
    """
    tenth = max(1, len(samples) // 10)
    lines = []
    for name in samples[0].things:
        first = max(sample.things[name] for sample in samples[:tenth])
        last = min(sample.things[name] for sample in samples[-tenth:])
        if last > first:
            lines.append(f"{name}: {first} at first, {last} at last")
    for name in samples[0].memory:
        found = growth([sample.memory[name] for sample in samples])
        if found.grows:
            lines.append(f"{name}: {found.per_cycle / KIB:.1f} +- {found.error / KIB:.1f} KiB a cycle")
    return lines


def soak(cycle: Callable[[], None], cycles: int) -> list[Sample]:
    """A sample after each of ``cycles``, and progress on stderr."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:  # in memory they would themselves be what grows
        for number in range(1, cycles + 1):
            cycle()
            if number == 1:  # all is imported but what prints: 0.5 MiB for the names of emoji
                stderr.print(f"1 of {cycles} cycles", highlight=False)
                _fill_interned()
            kept.write(json.dumps(asdict(look())) + "\n")
            if number % max(1, cycles // _ROWS) == 0:
                stderr.print(f"{number} of {cycles} cycles", highlight=False)
        kept.seek(0)
        return [Sample(**json.loads(line)) for line in kept]


def _fill_interned() -> None:
    """Have Python's table of interned strings be as big as it gets.

    pathlib interns every name, so that of every process too. When the table is full of strings that are gone it is
    made anew, with room for three times those that are left: 0.9 MiB more at once, after any number of cycles.
    """
    for number in range(_STRINGS):
        sys.intern(f"{number} of {_STRINGS}")


def show(samples: Sequence[Sample], seconds: float) -> None:
    """Ten of the samples, and the slopes."""
    step = max(1, len(samples) // _ROWS)
    shown = list(enumerate(samples, 1))[step - 1 :: step]
    columns = ["cycle", *samples[0].things, *(f"{name}, KiB" for name in samples[0].memory)]
    rows = [[at, *each.things.values(), *(octets // KIB for octets in each.memory.values())] for at, each in shown]
    slopes = [growth([each.memory[name] for each in samples]) for name in samples[0].memory]
    per_cycle = [f"{each.per_cycle / KIB:+.2f} +- {each.error / KIB:.2f}" for each in slopes]
    stdout.print(
        table("after each cycle", columns, [*rows, ["a cycle", *("" for _ in samples[0].things), *per_cycle]])
    )
    stdout.print(f"{len(samples)} cycles in {seconds:.0f} s", highlight=False)


def main() -> int:
    """Soak, print, and end with 1 when something grows."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--topology", type=Path, default=ROOT / "topologies/one-leaf.yaml")
    parser.add_argument("--no-rdma", action="store_true")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    topology = read_topology(wanted.topology)
    if wanted.no_rdma:
        topology = lifecycle.without_rdma(topology)

    def cycle() -> None:
        fabric, _ = lifecycle.up(topology, registry.backend(registry.DEFAULT))
        lifecycle.down(fabric.state)

    began = time.monotonic()
    samples = soak(cycle, wanted.cycles)
    found = judged(samples)
    if wanted.json:
        print(json.dumps({"samples": [asdict(each) for each in samples], "grows": found}))
    else:
        show(samples, time.monotonic() - began)
        print("\n".join(found) or "nothing grows")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"error: {error}")
