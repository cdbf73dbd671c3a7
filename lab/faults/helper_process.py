"""Programs that keep a fault up: each runs in the node that is at fault, and is known by a mark in its environment.

The mark says whose it is before it runs, so that a program is found, and ended, whatever became of its starter.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import cgroup, process
from lab.kernel.process.netns import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace

_MARK: Final = "ROCELAB_FAULT"
_READY: Final = "ready\n"
_PATIENCE: Final = 60.0
"""Seconds until such a program has begun, or has ended because it cannot."""


def start(namespace: Namespace, mark: str, module: str, words: Sequence[str]) -> None:
    """Run a module of this package in a node until ``end``; it says that it is ready before this returns.

    OperationFailed with its last words when it ends instead, and when it says nothing for a minute.
    """
    within = process.Surroundings("/", {**os.environ, _MARK: mark, "PYTHONPATH": _home()})
    argv = [sys.executable, "-m", module, *words]
    with cgroup.opened(namespace.group) as group:
        program = namespace.inside(
            lambda: process.start(argv, stdout=process.PIPE, stderr=process.STDOUT, within=within, group=group)
        )
    with program.stdout or open(os.devnull, encoding="ascii") as said:  # noqa: PTH123 - it has a pipe
        line = _first_line(program, said, f"{module} in {namespace.name}")
        if line != _READY:
            process.wait(program, _PATIENCE)
            rest = [line.strip(), *(text.strip() for text in said)]
            raise OperationFailed(f"{module} did not start in {namespace.name}: {rest[-1]}")
    program.returncode = 0  # it is not waited for, and Popen need not say so when it is collected


def _first_line(program: process.Process, said: IO[str], what: str) -> str:
    """What a program says first; one that is silent is ended."""
    heard = select.poll()
    heard.register(said, select.POLLIN)
    if not heard.poll(_PATIENCE * 1000):
        process.kill_all(program)
        program.wait()
        raise OperationFailed(f"{what} says nothing within {_PATIENCE:g} s", "try again; rocelab doctor")
    return said.readline()


def leave(fabric: Fabric, words: Sequence[str]) -> None:
    """Leave ``rocelab fault inject WORDS`` running for as long as the fabric lives, without a terminal."""
    within = process.Surroundings("/", {**os.environ, "PYTHONPATH": _home()})
    argv = [sys.executable, "-m", "lab", "fault", "inject", *words, "--fabric", fabric.name]
    with cgroup.opened(fabric.state.groups / "@faults") as group:
        process.start(argv, within=within, group=group)


def say_ready() -> None:
    """What such a program does when it has begun; what it prints afterwards nobody reads."""
    sys.stdout.write(_READY)
    sys.stdout.flush()
    with open(os.devnull, "w", encoding="ascii") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def end(namespace: Namespace, mark: str) -> None:
    """End the programs with this mark in the node; fine when there is none."""
    place = namespace.place
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]

    def meant(pid: int) -> bool:
        return place_of(pid) == place and f"{_MARK}={mark}" in _environment(pid)

    process.kill(filter(meant, found), meant=meant)


def _environment(pid: int) -> list[str]:
    try:
        return Path("/proc", str(pid), "environ").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        return []


def _home() -> str:
    """Where this package is imported from."""
    return str(Path(__file__).parents[2])
