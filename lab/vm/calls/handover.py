"""The files that a call copies to the guest and back: those in folders that the guest does not see.

Each call has its own folder in the cache that host and guest share. Files have the same paths below it as on the
host, so that relative names stay as typed. Files that the command line names as results are copied back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.kernel.process import locks
from lab.shipped import is_installed
from lab.vm.calls.call_folder import CallFolder
from lab.vm.host import isolation
from lab.vm.host.vm_lifecycle import is_shared, is_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.vm.host.vm_state import RunningVm

    Tell = Callable[[str], None]

GUEST_CACHE: Final = Path("/root/.cache/rocelab")
"""The guest's path of ``RunningVm.guest_cache`` (scripts/guest/.../shares)."""
IN_VM: Final = "ROCELAB_IN_VM"
"""Environment variable of the guest's processes."""
_LEAST: Final = 4096
"""Bytes that must be free for a result: one block of most file systems."""
_TOLD: Final = 3
"""Number of names in the report of files that are not copied."""


def to_stay(folder: Path) -> Path:
    """Return the absolute path of a folder for results that stay. UsageError if the host would not see it.

    A read-only folder is a UsageError, too, before anything is recorded that could not be kept.
    """
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - keeps links
    where = "the folder that the VM was started in" if is_installed() else "the checkout"
    remedy = f"record in recordings/ of {where}, or share another: rocelab vm down, then rocelab vm up --share DIR"
    if absolute.is_relative_to(GUEST_CACHE):
        raise UsageError(f"{_named_on_host(absolute)} is not shared with the VM", remedy)
    there = next(path for path in (absolute, *absolute.parents) if path.exists())
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        outside = "name another folder with -o"
        why = os.strerror(errno.EROFS)
        raise UsageError(f"cannot write {folder}: {why}", remedy if os.environ.get(IN_VM) else outside)
    return absolute


def _named_on_host(path: Path) -> Path:
    """Return the host path of a path in the folder of a call, ``calls/ID`` of the guest (``CallFolder``)."""
    return Path("/", *path.relative_to(GUEST_CACHE).parts[2:])


@dataclass(frozen=True)
class NamedFile:
    """A word of a command line that names a file."""

    text: str
    """The name as typed."""
    written: bool = False
    """Whether the command writes the file; otherwise it reads it."""
    places: tuple[int, ...] | None = None
    """Indexes of the words that are or end with the name (``-oFILE``, ``--output=FILE``); empty for a default value.
    None if the command's options are unknown: then every word that equals the name counts."""
    option: str = ""
    """The option, if the file is an option's default value."""


def _value_of(word: str) -> str:
    """Return a word, or the option value in it."""
    if word.startswith("--"):
        return word.partition("=")[2]
    return word[2:] if word.startswith("-") else word


class Handover:
    """A command line for the guest, and its directory there: see ``prepared``."""

    def __init__(self, running: RunningVm, folder: CallFolder, command: Sequence[str]) -> None:
        self.words = list(command)
        self._running = running
        self._folder = folder
        self._here = Path.cwd()
        self.room: int | None = None
        """Free bytes where results are copied back; None without results."""
        self._away = not is_shared(running, self._here)
        if self._away:
            folder.there(self._here).mkdir(parents=True)

    @property
    def directory(self) -> str:
        """The guest's folder for the command: the caller's own, or its counterpart in the call's folder."""
        return self._in_guest(self._here) if self._away else str(self._here)

    def name(self, file: NamedFile) -> None:
        """Replace a file's name in the command by the guest's name for it. A file that the command reads is copied.

        Raises UsageError if the command writes to a folder that is missing, read-only or full.
        """
        new = self._word(file)
        for place in self._places(file):
            self.words[place] = self.words[place].removesuffix(file.text) + new
        if file.option and new != file.text:
            self.words.append(f"{file.option}={new}")

    def _places(self, file: NamedFile) -> Sequence[int]:
        if file.places is not None:
            return file.places
        end = self.words.index("--") if "--" in self.words else len(self.words)
        return [place for place, word in enumerate(self.words[:end]) if _value_of(word) == file.text]

    def _word(self, file: NamedFile) -> str:
        path = Path(os.path.normpath(self._here / file.text))
        real = Path(os.path.realpath(path))  # also of a link to itself
        if (is_writable if file.written else is_shared)(self._running, real):
            # The guest cannot follow links of the host (lab/vm/host/isolation.py).
            return str(real) if self._away or Path(file.text).is_absolute() or real != path else file.text
        # The guest has its own devices and pipes. It does not see a folder that it would read.
        if path.exists() and not (path.is_file() or (path.is_dir() and file.written)):
            return file.text
        if not path.parent.is_dir():
            if not file.written:
                return file.text
            raise UsageError(f"there is no folder {path.parent} for {path.name}", "make it first")
        if file.written:
            _require_writable(path)
            room = _room_for(path)
            self.room = room if self.room is None else min(self.room, room)
        self._put(path, written=file.written)
        return file.text if self._away and not Path(file.text).is_absolute() else self._in_guest(path)

    def _put(self, path: Path, *, written: bool) -> None:
        copy = self._folder.there(path)
        (copy if path.is_dir() else copy.parent).mkdir(parents=True, exist_ok=True)
        if written:
            self._folder.expect(path)
        elif path.exists():
            self._folder.take(path)

    def bring_back(self, tell: Tell) -> None:
        """Copy the named results back, and report other files to ``tell``. Raises OperationFailed if that fails."""
        if left := self._folder.bring_back():
            told = ", ".join(_plain(os.path.relpath(path, self._here)) for path in left[:_TOLD])
            more = f" and {len(left) - _TOLD} more" if len(left) > _TOLD else ""
            tell(f"not brought back from the VM: {told}{more} (what is: rocelab vm run --help)")

    def _in_guest(self, path: Path) -> str:
        return str(GUEST_CACHE / self._folder.there(path).relative_to(self._running.guest_cache))


def _require_writable(path: Path) -> None:
    """Raise UsageError if a result could not be written: before the command runs, not after it reported success."""
    if path.is_file():
        found = next((number for number, bad in (
            (errno.EROFS, os.statvfs(path).f_flag & os.ST_RDONLY),
            (errno.EACCES, not os.access(path, os.W_OK)),
            (errno.ENOSPC, not os.statvfs(path).f_bavail),
        ) if bad), 0)  # fmt: skip
        reason = os.strerror(found) if found else ""
    else:
        reason = _lack_of(path if path.is_dir() else path.parent)
    if reason:
        raise UsageError(f"cannot write {path}: {reason}", "name another file")


def _room_for(path: Path) -> int:
    """Return the bytes that a file may have there, or all files of a folder together."""
    there = os.statvfs(path if path.exists() else path.parent)
    return there.f_bavail * there.f_frsize + (path.stat().st_size if path.is_file() else 0)


def _lack_of(folder: Path) -> str:
    """Return why a file with content cannot be created in a folder, or "". Tries with an unnamed temporary file."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as tried:
            tried.write(bytes(_LEAST))
    except OSError as error:
        return error.strerror or str(error)
    return ""


@contextlib.contextmanager
def prepared(
    running: RunningVm, command: Sequence[str], files: Sequence[NamedFile], tell: Tell
) -> Iterator[Handover]:
    """Yield a handover for ``command`` with the guest's names of ``files``, and copy its results back at the end.

    Other files that the guest wrote, and links and devices, are not copied, but reported to ``tell``. The call's
    folder is removed.
    """
    with _folder(running) as folder:
        handover = Handover(running, CallFolder(folder), command)
        for file in files:
            handover.name(file)
        isolation.give(folder, running.user)
        try:
            yield handover
        finally:
            handover.bring_back(tell)


@contextlib.contextmanager
def _folder(running: RunningVm) -> Iterator[Path]:
    """Yield a new folder for this call that the guest sees. Removes the folders of callers that were killed."""
    every = running.guest_cache / "calls"
    every.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with locks.held(every):
            for left in every.iterdir():
                _remove_if_left(left)
            own = every / os.urandom(4).hex()
            own.mkdir(mode=0o700)
            held.enter_context(locks.held(own))
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    with contextlib.suppress(OSError), locks.held_if_free(folder) as free:
        if free:
            shutil.rmtree(folder, ignore_errors=True)


def _plain(name: str) -> str:
    """Return a name that came from the guest, safe to print on a terminal."""
    return name if name.isprintable() else repr(name)
