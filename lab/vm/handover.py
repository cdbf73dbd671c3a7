"""What a call takes along and brings back: files in folders that the guest does not see.

Each call has a folder of its own in the cache that the host shares with the guest. Below it, files have the paths
that they have on the host: relative names stay as they were typed. What the command writes there is brought back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from lab.errors import OperationFailed, UsageError
from lab.kernel import locks
from lab.vm import walls
from lab.vm.machine import is_shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.vm.state import Running

_Stamp = tuple[int, int, int]
GUEST_CACHE: Final = Path("/root/.cache/rocelab")
"""Where the guest has what is ``Running.guest_cache`` on the host (scripts/guest/.../shares)."""


def to_stay(folder: Path) -> Path:
    """A folder for what stays when the call has ended, absolute; UsageError for one that the host would not see."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay what they are
    if absolute.is_relative_to(GUEST_CACHE):
        raise UsageError(f"{folder} is not shared with the VM", "record below the checkout, or rocelab vm up --share")
    return absolute


@dataclass(frozen=True)
class NamedFile:
    """A word of a command line that names a file."""

    text: str
    """As it was typed."""
    written: bool = False
    """The command writes it; otherwise it reads what is there."""


def value_of(word: str) -> str:
    """A word, or the value in it when it has its option before that: ``-oFILE``, ``--output=FILE``."""
    if word.startswith("--"):
        return word.partition("=")[2]
    return word[2:] if word.startswith("-") else word


class Handover:
    """A command line as the guest is to run it, and where: see ``prepared``."""

    def __init__(self, running: Running, folder: Path, command: Sequence[str]) -> None:
        self.words = list(command)
        self._running = running
        self._folder = folder
        self._here = Path.cwd()
        self._away = not is_shared(running, self._here)
        self._taken: dict[Path, _Stamp] = {}
        self._results: list[tuple[Path, str]] = []
        if self._away:
            self._there(self._here).mkdir(parents=True)

    @property
    def directory(self) -> str:
        """The guest's folder for the command: the caller's own, or what stands for it."""
        return self._in_guest(self._there(self._here)) if self._away else str(self._here)

    def name(self, file: NamedFile) -> None:
        """Put what the guest calls a file into the command; a file that it reads is taken along.

        Raises UsageError when the command is to write to a folder that is not there.
        """
        new = self._word(file)
        end = self.words.index("--") if "--" in self.words else len(self.words)
        for index, word in enumerate(self.words[:end]):
            if value_of(word) == file.text:
                self.words[index] = word.removesuffix(file.text) + new

    def _word(self, file: NamedFile) -> str:
        path = Path(os.path.normpath(self._here / file.text))
        real = path.resolve()
        if is_shared(self._running, real):
            # The guest cannot read a link of the host's (lab/vm/walls.py).
            return str(real) if self._away or Path(file.text).is_absolute() or real != path else file.text
        if path.exists() and not path.is_file():  # a device, a pipe, a folder: the guest has its own
            return file.text
        if not path.parent.is_dir():
            if not file.written:
                return file.text
            raise UsageError(f"there is no folder {path.parent} for {path.name}", "make it first")
        copy = self._there(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.written:
            self._results.append((path.parent, path.stem))
        elif path.exists():
            shutil.copyfile(path, copy)
            self._taken[copy] = _stamp(copy.stat())
        return file.text if self._away and not Path(file.text).is_absolute() else self._in_guest(copy)

    def bring_back(self) -> None:
        """Copy what the command wrote to where it belongs; OperationFailed when that cannot be."""
        if self._away:
            self._bring(self._here, "", deep=True)
        for folder, stem in self._results:
            self._bring(folder, stem, deep=False)

    def _there(self, path: Path) -> Path:
        return self._folder / path.relative_to("/")

    def _in_guest(self, copy: Path) -> str:
        return str(GUEST_CACHE / copy.relative_to(self._running.guest_cache))

    def _bring(self, folder: Path, stem: str, *, deep: bool) -> None:
        for where, folders, names, handle in os.fwalk(self._there(folder)):
            if not deep:
                folders.clear()
            for name in names:
                written = Path(where, name)
                if name.startswith(stem):
                    self._copy(handle, written, Path("/", written.relative_to(self._folder)))

    def _copy(self, handle: int, written: Path, target: Path) -> None:
        with _regular(handle, written.name) as source:
            if source is None or self._taken.get(written) == (now := _stamp(os.fstat(source.fileno()))):
                return
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
            except OSError as error:
                what = f"{target} cannot be written: {error.strerror}"
                raise OperationFailed(what, "run it again in a folder of your own") from error
            self._taken[written] = now


@contextlib.contextmanager
def prepared(running: Running, command: Sequence[str], files: Sequence[NamedFile]) -> Iterator[Handover]:
    """A handover for ``command``, in which ``files`` have the guest's names; at the end its results are brought back.

    What the guest writes elsewhere, or makes a link or a device, stays behind. Nothing is left of the folder.
    """
    with _folder(running) as folder:
        handover = Handover(running, folder, command)
        for file in files:
            handover.name(file)
        walls.give(folder, running.user)
        try:
            yield handover
        finally:
            handover.bring_back()


@contextlib.contextmanager
def _folder(running: Running) -> Iterator[Path]:
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


@contextlib.contextmanager
def _regular(handle: int, name: str) -> Iterator[BinaryIO | None]:
    """A regular file of a folder, open; None when it is something else: the guest may have made it a link."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except OSError:
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        real = stat.S_ISREG(os.fstat(descriptor).st_mode) and stat.S_ISREG(walls.mode_in_guest(descriptor))
        yield file if real else None


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
