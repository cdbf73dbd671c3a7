"""Who runs in which network namespace, as /proc tells: also in those that have no names any more."""

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
"""Namespaces for which descriptors are asked for at a time."""


@contextlib.contextmanager
def inhabited(cookies: Mapping[str, int]) -> Iterator[dict[Place, str]]:
    """Those of the namespaces in which somebody runs, whether or not they still have their names.

    They stay while this is held, so that no other can be taken for one of them.
    """
    names = {cookie: name for name, cookie in cookies.items()}
    with contextlib.ExitStack() as stack:
        yield threads.in_thread(lambda: _look_for(names, stack)) if names else {}


def _look_for(names: Mapping[int, str], stack: contextlib.ExitStack) -> dict[Place, str]:
    """The namespaces with these cookies, held by ``stack``; in whatever namespace that leaves the calling thread."""
    known: dict[Place, str | None] = {}
    for pid in _running():
        with contextlib.suppress(OSError):  # it ended, or is not ours to look at
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
    """Process ids, and the name of the namespace that each is in, of all that run in ``inhabited`` ones."""
    return {pid: places[place] for pid, place in _places().items() if place in places}


def programs(namespace: Namespace, prefix: str) -> list[int]:
    """Process ids of the programs in a namespace whose names begin so, of which the kernel keeps 15 letters."""
    found = []
    for pid in _processes_at(namespace.place):
        with contextlib.suppress(OSError):
            name = Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
            if name.startswith(prefix[:15]):
                found.append(pid)
    return found


def inner_pids(namespace: Namespace) -> dict[int, int]:
    """Of the processes in a namespace that have a PID namespace too: their ids by those that they have in there.

    So a container's; what was started there from outside is left out (proc_pid_status(5), NSpid).
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
    """Every process id, to be looked at before the next one is asked for.

    Who has ended by then may have left another, which is younger than the list: lists end with one that has none.
    """
    seen: set[int] = set()
    while younger := {int(entry) for entry in os.listdir("/proc") if entry.isdigit()} - seen:  # noqa: PTH208 - as above
        yield from younger
        seen |= younger
