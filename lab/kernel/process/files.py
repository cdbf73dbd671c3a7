"""Atomic replacement of files, file size limits, and safe reading of files in folders that others may write."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST: Final = 2**16


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the name of a new file that atomically replaces ``path`` when the block succeeds.

    A reader sees the old file or the new one, never a part. A failed or interrupted block leaves nothing behind.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def limit_size(octets: int) -> None:
    """Limit the size of each file that this process and its programs write, in bytes (setrlimit(2)).

    Writing more raises OSError (EFBIG).
    """
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = octets if hard == resource.RLIM_INFINITY else min(octets, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))


def read_theirs(path: Path) -> str:
    """Return the last 64 KiB of a file in a folder that other users may write; "" if it is missing.

    Raises OperationFailed unless it is a regular file: links are rejected, and so are devices and FIFOs that could
    block.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise OperationFailed(f"{path} is not read: {error.strerror}", "rocelab down, then rocelab up") from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OperationFailed(f"{path} is not read: it is no file", "rocelab down, then rocelab up")
        return os.pread(descriptor, _MOST, max(0, state.st_size - _MOST)).decode(errors="replace")
    finally:
        os.close(descriptor)
