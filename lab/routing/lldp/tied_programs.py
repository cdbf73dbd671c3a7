"""Programs in a PID namespace of their own: they end with the process that started them, however that ends.

The namespace's first process reads a pipe whose other end only the caller has. When the caller ends, even by SIGKILL,
the first process reads the end of its input and exits. The kernel then kills all others in the namespace
(pid_namespaces(7)). A parent-death signal does not last: the kernel clears it when a daemon changes its user.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import libc, netns, process, signals, tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST: Final = ("cat", "coreutils")
_RUN: Final = Path("/run")


class TiedPrograms:
    """Programs that share a PID namespace, and mounts with a ``/run`` that has only namespaces."""

    def __init__(self, ends: int) -> None:
        self._ends = ends
        self._programs: list[process.Process] = []

    @property
    def run_directory(self) -> Path:
        """The programs' ``/run``, as other processes see it."""
        return Path("/proc", str(self._programs[0].pid), "root", *_RUN.parts[1:])

    def enter(self) -> None:
        """Create the namespaces. Call it in a thread created for this; only what the thread starts is in them.

        Raises OperationFailed if the kernel has no PID namespaces, or forbids them.
        """
        tuning.own_mounts()
        named = os.open(netns.NETNS_DIR, os.O_PATH | os.O_CLOEXEC)
        try:
            libc.mount("tmpfs", _RUN, "tmpfs")
            netns.NETNS_DIR.mkdir()
            libc.mount(f"/proc/self/fd/{named}", netns.NETNS_DIR, flags=libc.MS_BIND | libc.MS_REC)
        finally:
            os.close(named)
        try:
            libc.unshare(libc.CLONE_NEWPID)
        except OSError as error:
            raise OperationFailed(f"the kernel creates no PID namespace: {error.strerror}", "run as root") from error
        self.start([process.find_tool(*_FIRST)], stdin=self._ends)

    def start(
        self, argv: process.Argv, *, stdin: process.Stream = process.DEVNULL, stderr: process.Stream = process.DEVNULL
    ) -> process.Process:
        """Start a program in the namespaces of the calling thread, which has called ``enter``."""
        program = process.start(argv, stdin=stdin, stderr=stderr, within=process.Surroundings("/"))
        self._programs.append(program)
        return program

    def end(self) -> None:
        """Kill all programs, and return when they are gone."""
        for program in self._programs:
            process.kill_all(program)
        for program in reversed(self._programs):  # the first one ends when all others have been waited for
            program.wait()


@contextlib.contextmanager
def tied_programs() -> Iterator[TiedPrograms]:
    """Yield programs that are yet to be started. They end with the block, and with this process."""
    ends, kept = os.pipe2(os.O_CLOEXEC)
    programs = TiedPrograms(ends)
    try:
        yield programs
    finally:
        with signals.held():
            programs.end()
            os.close(kept)
            os.close(ends)
