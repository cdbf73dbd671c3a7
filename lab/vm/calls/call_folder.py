"""The folder of a call: what it takes along, and what the guest leaves, of which what was named comes back.

All of it is the guest's: its root may write there whatever it likes, beside what it was asked for. So a file of this
machine is only written to where the user has named it, or, below a folder that he has named, where there was none.
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
_ENTERED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY: Final = {errno.EEXIST, errno.ELOOP, errno.ENOTDIR}
"""What there is already, a link or a file that stands where a folder would have to: of these nothing is touched."""


class CallFolder:
    """Below ``path``, files have the paths that they have on the host."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._taken: dict[Path, _Stamp] = {}
        self._named: dict[Path, Path] = {}
        """What is to be written, and where that is when it is a link."""

    def there(self, path: Path) -> Path:
        """What stands for an absolute path of the host."""
        return self.path / path.relative_to("/")

    def take(self, path: Path) -> None:
        """Take a file along, which the guest reads."""
        copy = self.there(path)
        shutil.copyfile(path, copy)
        self._taken[copy] = _stamp(copy.stat())

    def expect(self, path: Path) -> None:
        """The user has named ``path``, without ``..``, as a file or folder that the guest writes."""
        self._named[path] = path.resolve()

    def bring_back(self) -> list[Path]:
        """Copy to the host what was named; return what stays behind, by the paths that it would have here.

        What the guest has made a link or a device stays, too. OperationFailed when a file cannot be written.
        """
        left = []
        for where, _, names, handle in os.fwalk(self.path):
            for name in sorted(names):
                written = Path(where, name)
                with _regular(handle, name) as source:
                    if source and self._taken.get(written) == _stamp(os.fstat(source.fileno())):
                        continue
                    path = Path("/", written.relative_to(self.path))
                    if source is None or not self._bring(source, path):
                        left.append(path)
        return sorted(left)

    def _bring(self, source: BinaryIO, path: Path) -> bool:
        """Copy a file to ``path`` where that was named; False when it was not, or something is in its way."""
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
        """A descriptor to write to ``path``; None when nothing that was named allows that."""
        if real := self._named.get(path):
            return os.open(real, _WRITTEN | os.O_TRUNC, 0o666)
        for named, real in self._named.items():
            if path.parent == named.parent and _is_of_ring(path, named):
                return os.open(path, _WRITTEN | os.O_TRUNC, 0o666)
            if named in path.parents:
                return _open_new(real, path.relative_to(named).parts)
        return None


def _is_of_ring(path: Path, named: Path) -> bool:
    """Whether it is one of the files that ``rocelab capture --ring`` makes of a name."""
    return bool(re.fullmatch(rf"{re.escape(named.stem)}_[0-9]{{5,}}{re.escape(named.suffix)}", path.name))


def _open_new(folder: Path, parts: tuple[str, ...]) -> int | None:
    """A descriptor of a new file below ``folder``; None for a hidden one. OSError where a link is on the way."""
    if any(part.startswith(".") for part in parts):
        return None
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as opened:
        at = os.open(folder, _ENTERED)
        opened.callback(os.close, at)
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            at = os.open(part, _ENTERED, dir_fd=at)
            opened.callback(os.close, at)
        return os.open(parts[-1], _WRITTEN | os.O_EXCL, 0o666, dir_fd=at)


@contextlib.contextmanager
def _regular(handle: int, name: str) -> Iterator[BinaryIO | None]:
    """A regular file of a folder, open; None when it is something else: the guest may have made it a link."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except OSError:
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        real = stat.S_ISREG(os.fstat(descriptor).st_mode) and stat.S_ISREG(isolation.mode_in_guest(descriptor))
        yield file if real else None


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
