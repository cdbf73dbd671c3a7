"""System calls on namespaces, mounts and memory that Python 3.11 does not provide."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_SLAVE: Final = 0x80000
MS_SHARED: Final = 0x100000
MNT_DETACH: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Move the calling thread into new namespaces (unshare(2)). Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Move the calling thread into the namespace of an open descriptor (setns(2)). Raises OSError."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0) -> None:
    """Mount ``source`` at ``target`` (mount(2)). Raises OSError, which names the target."""
    done = _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), None)
    _check(done, os.fspath(target))


def unmount(target: str | Path, flags: int = MNT_DETACH) -> None:
    """Detach a mount at once; its last user frees it (umount2(2)). With flags 0 a mount in use is not detached.

    Raises OSError, which names the target.
    """
    _check(_libc.umount2(os.fsencode(target), flags), os.fspath(target))


def make_executable(address: int, length: int) -> None:
    """Make pages readable and executable, but not writable (mprotect(2)). Raises OSError if that is forbidden."""
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    done = _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), protection)
    _check(done, "mprotect")
