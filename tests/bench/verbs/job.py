"""The cost of MPI: a step of a ring over 8 hosts next to the same bytes by ``ib_write_bw``; the start; the memory.

    ./scripts/bench job [--json] [--rounds N] [--memory-size BYTES]

A ring passes 2(n-1)/n of its buffer to the next rank, in 2(n-1) messages. ``ib_write_bw`` writes as many messages of
that size between the same hosts, all pairs at once, for as many steps as the job measures; the slowest pair counts.
There is one spine, so that both take the same links. The two take turns, and the medians of the time of a step are
compared, beside the lowest and the highest ratio of a round. To reach: less than twice the time.

The start is the time from the first process of a job to the moment at which every rank knows all others. The memory
is what a job of 16 ranks takes of the machine at most: 4 GiB must be enough.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends import lifecycle, registry
from lab.cli.kit.output import stderr, stdout, table
from lab.jobs.job_spec import MAX_JOB_SIZE
from lab.kernel.process import process, time_source
from lab.model.load import load_topology
from lab.units import format_size, format_time, parse_size
from tests.bench.bench_command import run_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "benchjob"
RATE: Final = 20_000_000
"""Bits per second of a link: 8 ranks receive 160 Mb/s together, which an emulated machine carries."""
RANKS: Final = 8
MANY: Final = 16
SIZE: Final = 2**20
STEPS: Final = 5
"""Steps of a round: a shorter transfer would measure the start of ``ib_write_bw``."""
ROUNDS: Final = 5
RATIO: Final = 2.0
START: Final = 10.0
MEMORY: Final = 4 * 2**30
_HOSTS: Final = tuple(f"h{number}" for number in (1, 2, 3, 4, 9, 10, 11, 12))
"""Four hosts of each leaf."""
_TOPOLOGY: Final = f"""
name: {NAME}
qos: pfc-ecn
defaults: {{rate: {RATE}, mtu: 9000}}
generate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: {MANY // 2}}}
"""
_TIMEOUT: Final = 900.0
_INTERVAL: Final = 0.2
"""Seconds between two readings of the free memory."""


def command(*words: str) -> Any:
    """The answer of a rocelab command."""
    argv = [sys.executable, "-m", "lab", *words, "--fabric", NAME, "--json"]
    return json.loads(process.run(argv, timeout=_TIMEOUT).stdout)


def job(*words: str, size: int, steps: int, warmup: int) -> Any:
    """The answer of a ring; it must be right."""
    length = ["--size", str(size), "--iterations", str(steps), "--warmup", str(warmup)]
    answer = command("job", "allreduce", *words, "--algorithm", "ring", *length)
    assert answer["wrong"] == 0
    return answer


def bare() -> float:
    """Seconds in which ``ib_write_bw`` writes what a rank sends in a step: a mean of steps, of the slowest pair."""
    first, *others = zip(_HOSTS, (*_HOSTS[1:], _HOSTS[0]), strict=True)
    pairs = [word for pair in others for word in ("--pair", ":".join(pair))]
    messages = 2 * (RANKS - 1)
    answer = command(
        "rdma", "bw", *first, *pairs, "--size", str(SIZE // RANKS), "--iterations", str(STEPS * messages)
    )
    return float(messages * SIZE / RANKS * 8 / min(pair["goodput_bps"] for pair in answer["pairs"]))


def available() -> int:
    """Bytes that programs can still have (``MemAvailable`` of proc_meminfo(5))."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


@contextmanager
def lowest_available() -> Iterator[list[int]]:
    """The least of ``available`` meanwhile, as the only item of the list."""
    least, ended = [available()], threading.Event()

    def look() -> None:
        while not ended.wait(_INTERVAL):
            least[0] = min(least[0], available())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield least
    finally:
        ended.set()
        thread.join()


def measure(rounds: int, memory_size: int) -> dict[str, Any]:
    """Both in turns, then the memory of the larger job."""
    steps, floors, starts = [], [], []
    fabric, _ = lifecycle.up(load_topology(_TOPOLOGY), registry.backend(registry.DEFAULT))
    try:
        for number in range(rounds):
            _note(f"round {number + 1} of {rounds}")
            floors.append(bare())
            answer = job(*_HOSTS, size=SIZE, steps=STEPS, warmup=1)
            steps.append(answer["rows"][0]["time_s"])
            starts.append(answer["start_s"])
            _note(f"step {steps[-1]:.3f} s, ib_write_bw {floors[-1]:.3f} s, start {starts[-1]:.2f} s")
        _note(f"{MANY} ranks with buffers of {format_size(memory_size)}")
        before = available()
        with lowest_available() as least:
            many = job("--ranks", str(MANY), size=memory_size, steps=1, warmup=0)
    finally:
        lifecycle.down(fabric.state)
    return {
        "step_s": steps,
        "bare_s": floors,
        "ratio": statistics.median(steps) / statistics.median(floors),
        "ratios": [step / floor for step, floor in zip(steps, floors, strict=True)],
        "wire_s": 2 * (RANKS - 1) / RANKS * SIZE * 8 / RATE,
        "start_s": statistics.median(starts),
        "start_of_16_s": many["start_s"],
        "memory_bytes": before - least[0],
        "memory_size": memory_size,
        "targets": {"ratio": RATIO, "start_s": START, "memory_bytes": MEMORY},
        "time": time_source.lives_in(),
    }


def _note(text: str) -> None:
    stderr.print(text, highlight=False)


def show(measured: dict[str, Any]) -> None:
    """A row for each side with all rounds, and the figures beside their targets."""
    rows = [
        (title, format_time(statistics.median(measured[key])), ", ".join(map(format_time, measured[key])))
        for title, key in (("ib_write_bw", "bare_s"), ("step of a ring", "step_s"))
    ]
    clock = measured["time"]
    title = f"{format_size(SIZE)} on {RANKS} ranks, {clock} time; payload at link rate: {measured['wire_s']:.3f} s"
    stdout.print(table(title, ("", "median", "rounds"), rows))
    memory = format_size(measured["memory_bytes"])
    starts = f"{RANKS} ranks start in {measured['start_s']:.2f} s, {MANY} in {measured['start_of_16_s']:.2f} s"
    low, high = min(measured["ratios"]), max(measured["ratios"])
    ratio = f"{measured['ratio']:.2f} times as long as ib_write_bw, {low:.2f} to {high:.2f} by round"
    for line in (
        f"a step takes {ratio} (to reach: less than {RATIO:g})",
        f"{starts} of {clock} time (to reach: less than {START:g} s)",
        f"{MANY} ranks with buffers of {format_size(measured['memory_size'])} take {memory} (to fit in: 4 GiB)",
    ):
        stdout.print(line, highlight=False)


if __name__ == "__main__":
    run_bench("job", __doc__, {"rounds": (int, ROUNDS), "memory_size": (parse_size, MAX_JOB_SIZE)}, measure, show)
