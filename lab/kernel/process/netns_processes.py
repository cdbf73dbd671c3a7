"""The processes in each network namespace, from /proc: also in namespaces that have lost their names."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.kernel.process import libc, process, threads
from lab.kernel.process.netns import own_cookie, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.kernel.process.netns import Namespace, Place

_AT_ONCE: Final = 64
"""Step in which the limit of open descriptors is raised, in namespaces."""


@contextlib.contextmanager
def inhabited(cookies: Mapping[str, int]) -> Iterator[dict[Place, str]]:
    """Yield the given namespaces that have processes, whether or not they still have their names.

    They exist at least until the block ends, so that no new namespace gets one of their inodes.
    """
    names = {cookie: name for name, cookie in cookies.items()}
    with contextlib.ExitStack() as stack:
        yield threads.in_thread(lambda: _look_for(names, stack)) if names else {}


def _look_for(names: Mapping[int, str], stack: contextlib.ExitStack) -> dict[Place, str]:
    """Find the namespaces with these cookies; ``stack`` keeps them open. Changes the calling thread's namespace."""
    known: dict[Place, str | None] = {}
    for pid in _running():
        with contextlib.suppress(OSError):  # the process ended, or may not be inspected
            namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            state = os.fstat(namespace)
            place = state.st_dev, state.st_ino
            if place in known:
                os.close(namespace)
                continue
            if len(known) % _AT_ONCE == 0:
                process.allow_descriptors(_AT_ONCE)
            stack.callback(os.close, namespace)
            libc.setns(namespace, libc.CLONE_NEWNET)
            known[place] = names.get(own_cookie())
    return {place: name for place, name in known.items() if name}


def processes_in(places: Mapping[Place, str]) -> dict[int, str]:
    """Return the id of each process in the ``inhabited`` namespaces, with the name of its namespace."""
    return {pid: places[place] for pid, place in _places().items() if place in places}


def programs(namespace: Namespace, prefix: str) -> list[int]:
    """Return the ids of processes in a namespace by the beginning of their name; the kernel keeps 15 characters."""
    found = []
    for pid in _processes_at(namespace.place):
        with contextlib.suppress(OSError):
            name = Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
            if name.startswith(prefix[:15]):
                found.append(pid)
    return found


def inner_pids(namespace: Namespace) -> dict[int, int]:
    """Map PIDs inside a container to PIDs outside, for the processes of a namespace (proc_pid_status(5), NSpid).

    Processes that were started there from outside the container's PID namespace are left out.
    """
    found = {}
    for pid in _processes_at(namespace.place):
        with contextlib.suppress(OSError):
            status = Path("/proc", str(pid), "status").read_text(encoding="utf-8", errors="replace")
            ids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            if len(ids) > 1:
                found[int(ids[-1])] = pid
    return found


def _processes_at(place: Place | None) -> list[int]:
    return [pid for pid, where in _places().items() if where == place]


def _places() -> dict[int, Place]:
    return {pid: place for pid in _running() if (place := place_of(pid)) is not None}


def _running() -> Iterator[int]:
    """Yield every process id. The caller must inspect each one before it requests the next.

    A process that ends meanwhile may have started a child, which is missing in the list. The list is therefore read
    until it contains nothing new.
    """
    seen: set[int] = set()
    while younger := {int(entry) for entry in os.listdir("/proc") if entry.isdigit()} - seen:  # noqa: PTH208 - as above
        yield from younger
        seen |= younger
