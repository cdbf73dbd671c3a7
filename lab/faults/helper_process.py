"""Helper processes of faults: each runs in the faulty node, and is identified by a mark in its environment.

The mark is set before the program runs. So it can be found and ended even if its parent was killed.
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
"""The maximum seconds until a helper has started, or has exited with an error."""


def start(namespace: Namespace, mark: str, module: str, words: Sequence[str]) -> None:
    """Run a module of this package in a node until ``end``. Returns once the helper reports that it is ready.

    Raises OperationFailed with the helper's last output if it exits first, or if it is silent for a minute.
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
    program.returncode = 0  # avoids Popen's ResourceWarning: the helper keeps running


def _first_line(program: process.Process, said: IO[str], what: str) -> str:
    """Return the first line of a helper's output. A silent helper is killed, and OperationFailed raised."""
    heard = select.poll()
    heard.register(said, select.POLLIN)
    if not heard.poll(_PATIENCE * 1000):
        process.kill_all(program)
        program.wait()
        raise OperationFailed(f"{what} says nothing within {_PATIENCE:g} s", "try again; rocelab doctor")
    return said.readline()


def leave(fabric: Fabric, words: Sequence[str]) -> None:
    """Start ``rocelab fault inject WORDS`` in the background, without a terminal, for the fabric's lifetime."""
    within = process.Surroundings("/", {**os.environ, "PYTHONPATH": _home()})
    argv = [sys.executable, "-m", "lab", "fault", "inject", *words, "--fabric", fabric.name]
    with cgroup.opened(fabric.state.groups / "@faults") as group:
        process.start(argv, within=within, group=group)


def say_ready() -> None:
    """Report that this helper is ready, and discard its later output."""
    sys.stdout.write(_READY)
    sys.stdout.flush()
    with open(os.devnull, "w", encoding="ascii") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def end(namespace: Namespace, mark: str) -> None:
    """End the helpers with this mark in a node, if there are any."""
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
    """Return the folder that contains this package, for PYTHONPATH."""
    return str(Path(__file__).parents[2])
