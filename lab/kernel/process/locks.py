"""Locks between commands, by flock(2): on directories that come and go, and on files that stay.

The kernel releases a lock when its process ends. A temporary directory has one writer or any number of readers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Waiting: TypeAlias = "Callable[[str], None]"
"""Called before a wait with the command that holds the lock. It raises an error to give up."""
_NOBODY: Final = "a command that cannot be seen from here"
_LONGEST: Final = 100


def patient(holder: str) -> None:
    """Default callback: wait silently."""


@contextlib.contextmanager
def locked(directory: Path, *, shared: bool = False, waiting: Waiting = patient) -> Iterator[None]:
    """Lock a directory. A writer creates it if missing, and removes it at the end if it is empty.

    Raises FileNotFoundError if a reader (``shared``) finds no directory. The lock ends with the process in any case,
    and with the context even if a signal raises an error anywhere in here: what undoes the work may lock again.
    """
    for attempt in count():
        try:
            if not shared:
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            if shared:
                raise
            continue  # the directory, or its parent, was removed meanwhile
        try:
            if _locks(descriptor, directory, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, waiting, last=attempt > 0):
                try:
                    yield
                finally:
                    if not shared:
                        with contextlib.suppress(OSError):
                            directory.rmdir()
                return
        finally:
            os.close(descriptor)


def _locks(descriptor: int, directory: Path, mode: int, waiting: Waiting, *, last: bool) -> bool:
    """Lock an open directory and return True, or return False if it must be opened again.

    A holder that cannot be seen may have released the lock just now: it is waited for only in a later (``last``) try.
    """
    if not _taken(descriptor, mode):
        holder = holder_of(directory)
        if not holder and not last:
            return False
        waiting(holder or _NOBODY)
        fcntl.flock(descriptor, mode)
    return _is_still(descriptor, directory)  # its last holder may have removed it


@contextlib.contextmanager
def held(path: Path, *, make: bool = False, waiting: Waiting = patient) -> Iterator[None]:
    """Lock a directory or a file that is never removed; ``make`` creates a missing file.

    Raises OSError if it cannot be opened.
    """
    with _opened(path, make) as descriptor:
        if not _taken(descriptor, fcntl.LOCK_EX):
            waiting(holder_of(path) or _NOBODY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def held_if_free(path: Path, *, make: bool = False) -> Iterator[bool]:
    """Lock as ``held``, but without waiting; yield whether that succeeded. Retries if the holder removed the file."""
    while True:
        with _opened(path, make) as descriptor:
            free = _taken(descriptor, fcntl.LOCK_EX)
            if not free or _is_still(descriptor, path):
                yield free
                return


@contextlib.contextmanager
def sharing(path: Path) -> Iterator[int]:
    """Take a shared lock on a file and yield its descriptor. The lock lasts until its last inherited copy is closed.

    Raises OSError if the file cannot be opened.
    """
    with _opened(path, make=False) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield descriptor


@contextlib.contextmanager
def _opened(path: Path, make: bool) -> Iterator[int]:
    how = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(descriptor: int, directory: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    return False


def holder_of(path: Path, *, changing: bool = False) -> str:
    """Return the command that holds a directory or file, with its pid, or "". ``changing`` ignores shared locks."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return ""
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 fe:00:12345 0 EOF; a waiting lock has -> before FLOCK
        if words[1] == "FLOCK" and words[5] == place and not (changing and words[3] != "WRITE"):
            return _command(int(words[4]))
    return ""


def _of_process(pid: int, file: str) -> str:
    return Path("/proc", str(pid), file).read_text(encoding="utf-8", errors="replace")


def _command(pid: int) -> str:
    """Return a process's command line as its user typed it. Kernel threads and zombies only have a name."""
    try:
        line, name = (_of_process(pid, file) for file in ("cmdline", "comm"))
    except OSError:
        return _NOBODY
    words = line.removesuffix("\0").split("\0")  # a process that set its own title has no \0 at the end
    if not words[0]:
        return f"{name.strip()} (pid {pid})"
    ours = next((at for at, word in enumerate(words) if Path(word).name in {"rocelab", "lab"}), 0)
    text = " ".join(["rocelab" if ours else Path(words[0]).name, *words[ours + 1 :]])
    return f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'} (pid {pid})"
