"""The coverage-guided fuzzer: ``python -m tests.fuzz.run TARGET SECONDS RUNS FOLDER``; 0 of either is no limit.

Interesting inputs are kept in FOLDER, from which the next run continues. Inputs that break a target are written there
as ``crash-...``, ``timeout-...`` or ``oom-...``, and end the run with an error.
"""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import atheris
from atheris.import_hook import HookManager

if TYPE_CHECKING:
    from collections.abc import Callable

_MEMORY: Final = 600
"""MiB: Python, NumPy, scapy and the fuzzer's own tables take a third."""
_SLOWEST: Final = 20.0
"""Seconds of a CPU for one input: a machine that does other things too is not slow."""
_STUCK: Final = 1800
"""Seconds of the clock for one input, for what does not come back to Python."""
_LONGEST: Final = 2048
"""Bytes of one input: what is long takes long."""
_ON_ARRAYS: Final = {"analysis", "choosing", "following", "pcapng", "walks"}
"""Targets whose comparisons are not watched: atheris 3.0.0 never frees what a comparison of two arrays gives."""


def main() -> None:
    """Fuzz one target, for some time or some executions."""
    name, seconds, runs, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    with HookManager({"lab"}, set(), enable_loader_override=True, trace_dataflow=name not in _ON_ARRAYS):
        from tests.fuzz.seeds import SEEDS  # noqa: PLC0415 - what is imported here is instrumented
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415
    gc.freeze()  # what is imported stays: a full collection would look at it again and again
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]()):
        (folder / f"seed-{number}").write_bytes(seed)
    limits = (
        f"-max_total_time={seconds}",
        f"-runs={runs or -1}",
        f"-rss_limit_mb={_MEMORY}",
        f"-timeout={_STUCK}",
        f"-max_len={_LONGEST}",
        "-print_final_stats=1",  # memory at its peak among them
    )
    atheris.Setup([sys.argv[0], str(folder), f"-artifact_prefix={folder}/", *limits], _bounded(TARGETS[name]))
    atheris.Fuzz()


def _bounded(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, which raises TimeoutError when an input takes too much CPU."""

    def late(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"one input took {_SLOWEST:g} s of a CPU")

    def run(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, _SLOWEST)
        target(data)

    signal.signal(signal.SIGVTALRM, late)
    return run


if __name__ == "__main__":
    main()
