"""What a call takes along and brings back: files in folders that the guest does not see.

Each call has a folder of its own in the cache that the host shares with the guest. Below it, files have the paths
that they have on the host: relative names stay as they were typed. What the command line names as written comes back.
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
"""Where the guest has what is ``Running.guest_cache`` on the host (scripts/guest/.../shares)."""
_LEAST: Final = 4096
"""Bytes for which there must be room where a result is to come: a block of most file systems."""
_TOLD: Final = 3
"""Names of what is left behind that are told."""


def to_stay(folder: Path) -> Path:
    """A folder for what stays when the call has ended, absolute; UsageError for one that the host would not see.

    Nor is it for one that is read-only, before anything is played that could not be kept.
    """
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay what they are
    where = "the folder that the VM was started in" if is_installed() else "the checkout"
    remedy = f"record in recordings/ of {where}, or share another: rocelab vm down, then rocelab vm up --share DIR"
    if absolute.is_relative_to(GUEST_CACHE):
        raise UsageError(f"{folder} is not shared with the VM", remedy)
    there = next(path for path in (absolute, *absolute.parents) if path.exists())
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        raise UsageError(f"{folder} cannot be written", remedy)
    return absolute


@dataclass(frozen=True)
class NamedFile:
    """A word of a command line that names a file."""

    text: str
    """As it was typed."""
    written: bool = False
    """The command writes it; otherwise it reads what is there."""
    places: tuple[int, ...] | None = None
    """Which words it is, or the ends of which (``-oFILE``, ``--output=FILE``): none where it is a default. None where
    nobody knows the command's options: every word that is the file is it then."""
    option: str = ""
    """The option that names it, where it is the default of one."""


def _value_of(word: str) -> str:
    """A word, or the value in it when it has its option before that."""
    if word.startswith("--"):
        return word.partition("=")[2]
    return word[2:] if word.startswith("-") else word


class Handover:
    """A command line as the guest is to run it, and where: see ``prepared``."""

    def __init__(self, running: RunningVm, folder: CallFolder, command: Sequence[str]) -> None:
        self.words = list(command)
        self._running = running
        self._folder = folder
        self._here = Path.cwd()
        self.room: int | None = None
        """Bytes for which there is room where results are to be brought back; None when there are none."""
        self._away = not is_shared(running, self._here)
        if self._away:
            folder.there(self._here).mkdir(parents=True)

    @property
    def directory(self) -> str:
        """The guest's folder for the command: the caller's own, or what stands for it."""
        return self._in_guest(self._here) if self._away else str(self._here)

    def name(self, file: NamedFile) -> None:
        """Put what the guest calls a file into the command; a file that it reads is taken along.

        Raises UsageError when the command is to write to a folder that is not there, is read-only or full.
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
        real = path.resolve()
        if (is_writable if file.written else is_shared)(self._running, real):
            # The guest cannot read a link of the host's (lab/vm/host/isolation.py).
            return str(real) if self._away or Path(file.text).is_absolute() or real != path else file.text
        # A device or a pipe the guest has itself, and a folder that it reads it does not see.
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
        """Copy what was named to where it belongs, and tell what was not; OperationFailed when that cannot be."""
        if left := self._folder.bring_back():
            told = ", ".join(_plain(os.path.relpath(path, self._here)) for path in left[:_TOLD])
            more = f" and {len(left) - _TOLD} more" if len(left) > _TOLD else ""
            tell(f"not brought back from the VM: {told}{more} (what is: rocelab vm run --help)")

    def _in_guest(self, path: Path) -> str:
        return str(GUEST_CACHE / self._folder.there(path).relative_to(self._running.guest_cache))


def _require_writable(path: Path) -> None:
    """UsageError where no result could be written: before the command runs, not after it has reported success."""
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
    """Bytes that a file may have there, or those of a folder together."""
    there = os.statvfs(path if path.exists() else path.parent)
    return there.f_bavail * there.f_frsize + (path.stat().st_size if path.is_file() else 0)


def _lack_of(folder: Path) -> str:
    """Why no file with something in it can be made in a folder; "" when one was, which has no name and is gone."""
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
    """A handover for ``command``, in which ``files`` have the guest's names; at the end its results are brought back.

    What else the guest writes, or makes a link or a device, stays behind, which ``tell`` is told. Nothing is left of
    the folder.
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
    """A folder of this call's own that the guest sees; those of callers that were killed are taken away."""
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
    """A name that the guest has given, for a terminal to print."""
    return name if name.isprintable() else repr(name)
