"""A cgroup of its own for each node's programs (cgroup v2): all of them are ended at once, whatever they forked.

Where the machine has no cgroup2 that we may change, as in many containers, there are none: programs are then found by
their namespace (``lab.kernel.process.netns``), as are programs that somebody started by other means.
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
"""Microseconds in which a share is counted: the kernel's own default."""
_LATE: Final = 0.1
"""Seconds until a group is looked at again for who joined it when the others had been killed: no event tells."""


def place_for(name: str) -> Path | None:
    """Where a group of this name would be; None where no cgroup2 is mounted that we may change."""
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        words, _, kind = line.partition(" - ")
        target = Path(words.split()[4])
        if kind.split()[0] == "cgroup2" and os.access(target, os.W_OK):
            return target / _PARENT / name
    return None


def create(group: Path) -> bool:
    """Make a group, and say whether it can end its members (Linux 5.14); FileExistsError when it is there."""
    group.parent.mkdir(exist_ok=True)
    group.mkdir()
    return (group / _KILL).exists()


@contextlib.contextmanager
def opened(group: Path | None) -> Iterator[int | None]:
    """A descriptor by which programs start in the group, which is made if need be; None where its parent is not."""
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
    """EnvironmentLacks where the machine hands no CPU controller down to our groups, which is not ours to change."""
    machine = group.parents[2]
    if _CPU not in (machine / _HANDED).read_text().split():
        raise EnvironmentLacks(
            f"{machine} hands no CPU controller down", f"echo +{_CPU} > {machine / _HANDED}, or use --vm"
        )


def limit_cpu(group: Path, share: float) -> None:
    """Give all programs of a node's group this share of one CPU."""
    for above in (group.parents[1], group.parent):
        (above / _HANDED).write_text(f"+{_CPU}")
    (group / _LIMIT).write_text(f"{round(share * _PERIOD)} {_PERIOD}")


def free_cpu(group: Path) -> None:
    """Take the limit away, and with the last one what it took above; fine without any."""
    with contextlib.suppress(FileNotFoundError):
        (group / _LIMIT).write_text(_UNLIMITED)
    for above in (group.parent, group.parents[1]):
        with contextlib.suppress(OSError):  # a group below still hands it down
            if not any(_is_limited(limit) for limit in above.glob(f"*/{_LIMIT}")):
                (above / _HANDED).write_text(f"-{_CPU}")


def is_limited(group: Path) -> bool:
    """Whether the group's programs have a limit."""
    return _is_limited(group / _LIMIT)


def _is_limited(file: Path) -> bool:
    return file.exists() and not file.read_text().startswith(_UNLIMITED)


def holds_us(group: Path) -> bool:
    """Whether the calling process is in the group, or in one below it."""
    lines = _OWN.read_text(encoding="utf-8").splitlines()
    return any(line.startswith("0::") and f"/{_PARENT}/{group.name}/" in f"{line}/" for line in lines)


def end(group: Path, timeout: float = 10.0) -> None:
    """End every process of the group and of those below, at once, and return when all are gone; fine without it.

    OperationFailed after ``timeout`` seconds; UsageError where groups are not seen, as in ``ip netns exec``.
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
    """Take a group without processes away, those below it first, and their common parent with the last one."""
    with contextlib.suppress(FileNotFoundError):
        for below in group.iterdir():
            if below.is_dir():
                below.rmdir()
        group.rmdir()
    with contextlib.suppress(OSError):
        group.parent.rmdir()
