"""Files that others read while they are written, and files that others write, read without being led elsewhere."""

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
    """The name of a file to write, which takes the place of ``path`` at one stroke when that ended well.

    A reader sees the old file or the new one, never a part; of what fails, or is interrupted, nothing is left.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def limit_size(octets: int) -> None:
    """Let no file of this process, nor of the programs that it starts, grow beyond so much (setrlimit(2)).

    Writing more is an OSError then (EFBIG).
    """
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = octets if hard == resource.RLIM_INFINITY else min(octets, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))


def read_theirs(path: Path) -> str:
    """The last 64 KiB of a file in a folder that somebody else may write; "" when there is none.

    OperationFailed when it is no file but a link, or something that might never be read to its end.
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
