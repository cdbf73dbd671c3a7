"""Something that happens to rocelab at the n-th of some system call, exactly there and every time.

Its form is ``CALL:N:MOMENT:WHAT``. MOMENT is before or after the call. Then comes a signal's name, or ``count``,
which prints the number of all calls at the end. ``ip``, ``vtysh`` and daemons are other programs: only what rocelab
itself asks of the kernel counts. By a fork (tests/fabric/resident.py), or as a program that a test can stop:

    python -m tests.fabric.injected CALL:N:MOMENT:WHAT -- up FILE
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends.fabric_state import FabricState
from lab.cli.app import main
from lab.errors import EnvironmentLacks
from lab.kernel.bpf.libbpf import library
from lab.kernel.process import libc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CALLS: Final[dict[str, tuple[Any, str]]] = {
    "setns": (libc, "setns"),
    "unshare": (libc, "unshare"),
    "mount": (libc, "mount"),
    "umount": (libc, "unmount"),
    "link": (os, "link"),
    "netlink": (socket.socket, "send"),
    "journal": (FabricState, "record"),
    "clone": (subprocess.Popen, "__init__"),
    "mkdir": (os, "mkdir"),
    "rmdir": (os, "rmdir"),
    "unlink": (os, "unlink"),
    "symlink": (os, "symlink"),
}
"""The function that each call passes in rocelab's own process."""
_OF_LIBBPF: Final = (
    "bpf_object__load", "bpf_map__attach_struct_ops", "bpf_map__pin", "bpf_program__pin", "bpf_link__pin"
)  # fmt: skip
SORTS: Final = (*CALLS, "bpf", "qdisc", "rxe", "cgroup")
"""The groups in which calls are counted: qdiscs, RDMA devices and cgroups separately, and libbpf's as one."""
_NEW_QDISC: Final = 36
"""RTM_NEWQDISC of <linux/rtnetlink.h>."""
_HEADER: Final = struct.Struct("=IH")
"""Length and type, which begin each message (netlink(7))."""


def _sort(call: str, arguments: Sequence[Any]) -> str:
    match call:
        case "netlink" if _NEW_QDISC in _kinds(arguments[1]):
            return "qdisc"
        case "clone" if [Path(arguments[1][0]).name, *arguments[1][1:2]] == ["rdma", "link"]:
            return "rxe"
        case "mkdir" | "rmdir" if "/cgroup/" in os.fspath(arguments[0]):
            return "cgroup"
    return call


def _kinds(messages: bytes) -> Iterator[int]:
    """The types of what is sent at once."""
    at = 0
    while at < len(messages):
        length, kind = _HEADER.unpack_from(messages, at)
        yield kind
        at += (length + 3) & ~3


class Trap:
    """Counts calls in all threads, and springs at one of them."""

    def __init__(self, call: str, number: int, moment: str, what: str) -> None:
        self._call, self._number, self._moment, self._what = call, number, moment, what
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, wanted: str) -> Trap:
        """The one that ``CALL:N:MOMENT:WHAT`` asks for."""
        call, number, moment, what = wanted.split(":")
        return cls(call, int(number), moment, what)

    def set(self) -> None:
        """Put it around every call."""
        for call, (owner, name) in CALLS.items():
            setattr(owner, name, self._around(call, getattr(owner, name)))
        with contextlib.suppress(EnvironmentLacks):  # then nothing of rocelab calls it either
            for name in _OF_LIBBPF:
                setattr(library(), name, self._around("bpf", getattr(library(), name)))

    def _around(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def trapped(*arguments: Any, **options: Any) -> Any:
            sort = _sort(call, arguments)
            with self._lock:
                self._seen[sort] += 1
                number = self._seen[sort]
            self._spring(sort, number, "before")
            try:
                return real(*arguments, **options)
            finally:
                self._spring(sort, number, "after")

        return trapped

    def _spring(self, call: str, number: int, moment: str) -> None:
        if (call, number, moment) == (self._call, self._number, self._moment) and self._what != "count":
            os.kill(os.getpid(), signal.Signals[self._what])

    def count(self) -> None:
        """Print how often each call was made."""
        if self._what == "count":
            print(*(f"{sort}={self._seen[sort]}" for sort in SORTS), file=sys.stderr)


def trapped(wanted: str) -> None:
    """rocelab, with what is wanted around its system calls."""
    trap = Trap.of(wanted)
    trap.set()
    try:
        main()
    finally:
        trap.count()


if __name__ == "__main__":
    _, wanted, _, *words = sys.argv
    sys.argv = ["rocelab", *words]
    trapped(wanted)
