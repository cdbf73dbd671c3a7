"""A cgroup (cgroup v2) for each node's programs: ends them all at once, including what they forked.

A machine without a writable cgroup2 mount, as in many containers, has no such groups. Programs are then found by
their namespace (``lab.kernel.process.netns``), as are programs started by other means.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTS: Final = Path("/proc/self/mountinfo")
_OWN: Final = Path("/proc/self/cgroup")
_PARENT: Final = "rocelab"
_MEMBERS: Final = "cgroup.procs"
_KILL: Final = "cgroup.kill"
_EVENTS: Final = "cgroup.events"
_HANDED: Final = "cgroup.subtree_control"
_LIMIT: Final = "cpu.max"
_CPU: Final = "cpu"
_UNLIMITED: Final = "max"
_PERIOD: Final = 100_000
"""Microseconds of one period of ``cpu.max``: the kernel's default."""
_LATE: Final = 0.1
"""Seconds between two kills of a group: a process that joins after a kill causes no event."""


def place_for(name: str) -> Path | None:
    """Return the path of the group with this name; None without a writable cgroup2 mount."""
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        words, _, kind = line.partition(" - ")
        target = Path(words.split()[4])
        if kind.split()[0] == "cgroup2" and os.access(target, os.W_OK):
            return target / _PARENT / name
    return None


def create(group: Path) -> bool:
    """Create a group. Return whether it has ``cgroup.kill`` (Linux 5.14). Raises FileExistsError if it exists."""
    group.parent.mkdir(exist_ok=True)
    group.mkdir()
    return (group / _KILL).exists()


@contextlib.contextmanager
def opened(group: Path | None) -> Iterator[int | None]:
    """Yield a descriptor that puts a started program in the group, which is created if missing.

    Yields None without a group, or if the group's parent is missing.
    """
    descriptor = None
    if group is not None:
        with contextlib.suppress(FileNotFoundError):
            group.mkdir(exist_ok=True)
            descriptor = os.open(group / _MEMBERS, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def check_cpu(group: Path) -> None:
    """Raise EnvironmentLacks if the root cgroup does not delegate the CPU controller, which rocelab leaves alone."""
    machine = group.parents[2]
    if _CPU not in (machine / _HANDED).read_text().split():
        raise EnvironmentLacks(
            f"{machine} hands no CPU controller down", f"echo +{_CPU} > {machine / _HANDED}, or use --vm"
        )


def limit_cpu(group: Path, share: float) -> None:
    """Limit all programs of a node's group to this share of one CPU."""
    for above in (group.parents[1], group.parent):
        (above / _HANDED).write_text(f"+{_CPU}")
    (group / _LIMIT).write_text(f"{round(share * _PERIOD)} {_PERIOD}")


def free_cpu(group: Path) -> None:
    """Remove a group's limit, if any. The last removal also disables the CPU controller in the groups above."""
    with contextlib.suppress(FileNotFoundError):
        (group / _LIMIT).write_text(_UNLIMITED)
    for above in (group.parent, group.parents[1]):
        with contextlib.suppress(OSError):  # a group below still uses the controller
            if not any(_is_limited(limit) for limit in above.glob(f"*/{_LIMIT}")):
                (above / _HANDED).write_text(f"-{_CPU}")


def is_limited(group: Path) -> bool:
    """Return whether the group has a CPU limit."""
    return _is_limited(group / _LIMIT)


def _is_limited(file: Path) -> bool:
    return file.exists() and not file.read_text().startswith(_UNLIMITED)


def holds_us(group: Path) -> bool:
    """Return whether the calling process is in the group, or in one below it."""
    lines = _OWN.read_text(encoding="utf-8").splitlines()
    return any(line.startswith("0::") and f"/{_PARENT}/{group.name}/" in f"{line}/" for line in lines)


def end(group: Path, timeout: float = 10.0) -> None:
    """Kill all processes of the group and of those below, and wait until they are gone. A missing group is fine.

    Raises OperationFailed after ``timeout`` seconds, and UsageError where cgroups are not visible, as in
    ``ip netns exec``.
    """
    if not (group.parents[1] / _MEMBERS).exists():
        raise UsageError(f"{group} is not seen from here", "leave the node, then rocelab down")
    deadline = time.monotonic() + timeout
    try:
        events = os.open(group / _EVENTS, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        changed = select.poll()
        changed.register(events, select.POLLPRI)
        while b"populated 1" in os.pread(events, 4096, 0):
            if time.monotonic() > deadline:
                raise OperationFailed(f"processes of {group} cannot be ended", "they hang in the kernel; see dmesg")
            (group / _KILL).write_text("1")
            changed.poll(_LATE * 1000)
    finally:
        os.close(events)


def remove(group: Path) -> None:
    """Remove a group without processes: the groups below it first, and the common parent if it is empty then."""
    with contextlib.suppress(FileNotFoundError):
        for below in group.iterdir():
            if below.is_dir():
                below.rmdir()
        group.rmdir()
    with contextlib.suppress(OSError):
        group.parent.rmdir()
