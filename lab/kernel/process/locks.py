"""Locks between commands, which end with their process (flock(2)): directories that come and go, and what stays.

One command changes what is in a directory, or any number read it; what stays, one has for itself.
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
"""Told, before a wait, who has the lock; to wait no longer it raises."""
_NOBODY: Final = "a command that cannot be seen from here"
_LONGEST: Final = 100


def patient(holder: str) -> None:
    """Wait without a word."""


@contextlib.contextmanager
def locked(directory: Path, *, shared: bool = False, waiting: Waiting = patient) -> Iterator[None]:
    """Hold the directory, which whoever changes it makes and, if it is empty then, takes away again.

    FileNotFoundError when a reader finds none; the lock ends with the process, however that ends.
    """
    descriptor = _open_locked(directory, shared, waiting)
    try:
        yield
    finally:
        if not shared:
            with contextlib.suppress(OSError):
                directory.rmdir()
        os.close(descriptor)


def _open_locked(directory: Path, shared: bool, waiting: Waiting) -> int:
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    for attempt in count():
        with contextlib.ExitStack() as stack:
            try:
                if not shared:
                    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
                descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                if shared:
                    raise
                continue  # it, or the one that it was to be in, was taken away meanwhile
            stack.callback(os.close, descriptor)
            if not _taken(descriptor, mode):
                holder = holder_of(directory)
                if not holder and attempt == 0:
                    continue  # it has let go
                waiting(holder or _NOBODY)
                fcntl.flock(descriptor, mode)
            if _is_still(descriptor, directory):  # its last holder may have taken it away
                stack.pop_all()
                return descriptor
    raise AssertionError  # there is no last attempt


@contextlib.contextmanager
def held(path: Path, *, make: bool = False, waiting: Waiting = patient) -> Iterator[None]:
    """Hold a directory, or a file that nobody takes away and that is made when there is none, where asked.

    OSError when it cannot be opened.
    """
    with _opened(path, make) as descriptor:
        if not _taken(descriptor, fcntl.LOCK_EX):
            waiting(holder_of(path) or _NOBODY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def held_if_free(path: Path, *, make: bool = False) -> Iterator[bool]:
    """The same without a wait: whether it is held now. Its last holder may take it away: what follows counts."""
    while True:
        with _opened(path, make) as descriptor:
            free = _taken(descriptor, fcntl.LOCK_EX)
            if not free or _is_still(descriptor, path):
                yield free
                return


@contextlib.contextmanager
def sharing(path: Path) -> Iterator[int]:
    """Hold a file with others: a descriptor, to be inherited by who goes on holding it until the last one is closed.

    OSError when it cannot be opened.
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
    """The command that holds a directory or file, with its pid, or ""; only who is ``changing`` it, where asked."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return ""
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 fe:00:12345 0 EOF; one who waits has -> before FLOCK
        if words[1] == "FLOCK" and words[5] == place and not (changing and words[3] != "WRITE"):
            return _command(int(words[4]))
    return ""


def _of_process(pid: int, file: str) -> str:
    return Path("/proc", str(pid), file).read_text(encoding="utf-8", errors="replace")


def _command(pid: int) -> str:
    """The command line of a process as its user typed it, or its name: kernel threads and zombies have only that."""
    try:
        line, name = (_of_process(pid, file) for file in ("cmdline", "comm"))
    except OSError:
        return _NOBODY
    words = line.removesuffix("\0").split("\0")  # one that has given itself a title has no \0 at its end
    if not words[0]:
        return f"{name.strip()} (pid {pid})"
    ours = next((at for at, word in enumerate(words) if Path(word).name in {"rocelab", "lab"}), 0)
    text = " ".join(["rocelab" if ours else Path(words[0]).name, *words[ours + 1 :]])
    return f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'} (pid {pid})"
