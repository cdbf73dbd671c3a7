"""The folder of a call: copies of the files that it reads, and results. Named results are copied back.

The guest's root may write anything there, also files that were not requested. A file of the host is therefore written
only if the user named it, or if it is new in a named folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from lab.errors import OperationFailed
from lab.vm.host import isolation

if TYPE_CHECKING:
    from collections.abc import Iterator

_Stamp = tuple[int, int, int]
_WRITTEN: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ENTERED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder which the guest may have made a link: ELOOP or ENOTDIR then."""
_IN_THE_WAY: Final = {errno.EEXIST, errno.ELOOP, errno.ENOTDIR}
"""Errors for an existing file, a link, or a file in place of a folder: these are left alone."""


class CallFolder:
    """A folder in which files have the same paths below ``path`` as on the host."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._taken: dict[Path, _Stamp] = {}
        self._named: dict[Path, Path] = {}
        """Paths to be written, with the path that each resolves to."""

    def there(self, path: Path) -> Path:
        """Return the counterpart in this folder of an absolute path on the host."""
        return self.path / path.relative_to("/")

    def take(self, path: Path) -> None:
        """Copy a file that the guest reads into this folder."""
        copy = self.there(path)
        shutil.copyfile(path, copy)
        self._taken[copy] = _stamp(copy.stat())

    def expect(self, path: Path) -> None:
        """Register ``path``, which contains no ``..``, as a file or folder that the user lets the guest write."""
        self._named[path] = Path(os.path.realpath(path))

    def bring_back(self) -> list[Path]:
        """Copy the named results to the host. Return the host paths of files that are not copied.

        Files that the guest made a link or a device are not copied, either. Raises OperationFailed if a file cannot
        be written.
        """
        left = []
        for where, _, names, handle in os.fwalk(self.path):
            for name in sorted(names):
                written = Path(where, name)
                with regular_file(handle, name) as source:
                    if source and self._taken.get(written) == _stamp(os.fstat(source.fileno())):
                        continue
                    path = Path("/", written.relative_to(self.path))
                    if source is None or not self._bring(source, path):
                        left.append(path)
        return sorted(left)

    def _bring(self, source: BinaryIO, path: Path) -> bool:
        """Copy a file to ``path``. Return False if the path was not named, or something else is in its place."""
        try:
            target = self._open(path)
            if target is None:
                return False
            with os.fdopen(target, "wb") as copy:
                shutil.copyfileobj(source, copy)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return False
            what = f"{path} cannot be written: {error.strerror}"
            raise OperationFailed(what, "run it again in a folder of your own") from error
        return True

    def _open(self, path: Path) -> int | None:
        """Return a descriptor for writing ``path``; None if no named file or folder permits that."""
        if real := self._named.get(path):
            return os.open(real, _WRITTEN | os.O_TRUNC, 0o666)
        for named, real in self._named.items():
            if path.parent == named.parent and _is_of_ring(path, named):
                return os.open(path, _WRITTEN | os.O_TRUNC, 0o666)
            if named in path.parents:
                return _open_new(real, path.relative_to(named).parts)
        return None


def _is_of_ring(path: Path, named: Path) -> bool:
    """Return whether ``path`` is a file that ``rocelab capture --ring`` creates for the name ``named``."""
    return bool(re.fullmatch(rf"{re.escape(named.stem)}_[0-9]{{5,}}{re.escape(named.suffix)}", path.name))


def _open_new(folder: Path, parts: tuple[str, ...]) -> int | None:
    """Return a descriptor of a new file below ``folder``; None for a hidden one. OSError for a link on the path."""
    if any(part.startswith(".") for part in parts):
        return None
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as opened:
        at = os.open(folder, ENTERED)
        opened.callback(os.close, at)
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            at = os.open(part, ENTERED, dir_fd=at)
            opened.callback(os.close, at)
        return os.open(parts[-1], _WRITTEN | os.O_EXCL, 0o666, dir_fd=at)


@contextlib.contextmanager
def regular_file(handle: int, name: str) -> Iterator[BinaryIO | None]:
    """Yield a regular file of a folder, opened; None for anything else, which the guest may have made a link."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except OSError:
        yield None
        return
    modes = os.fstat(descriptor).st_mode, isolation.mode_in_guest(descriptor)
    if not all(map(stat.S_ISREG, modes)):  # a folder cannot even be opened as a file object
        os.close(descriptor)
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
