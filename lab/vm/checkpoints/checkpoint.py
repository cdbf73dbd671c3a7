"""Checkpoints: states of a guest on the disk, from which any number of VMs resume. Their storage, and which VMs fit.

A state fits a VM that is the same in everything: image, QEMU, devices, memory, shared folders, and rocelab's code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import locks, process
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.host.qemu import guest_argv
from lab.vm.image.recipe import cache_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.vm.host.qemu import Guest

SETTING: Final = "ROCELAB_CHECKPOINTS"
OFF: Final = "0"
AUTOMATIC: Final = 4
"""Number of automatic checkpoints to keep: the most recently used ones."""
SPARE: Final = 4 * 10**9
"""Bytes of free disk space below which no automatic checkpoint is made."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SAVING: Final = ".saving-"
_NOWHERE: Final = Path("-")


@dataclass(frozen=True)
class CheckpointInfo:
    """The description of a checkpoint."""

    what: str
    """A description of the guest's state."""
    fits: str
    """Identity of the guests that can resume from it."""
    image: str
    saved: float
    """Seconds since the epoch."""
    automatic: bool


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, by its folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The name by which commands refer to it."""
        return self.folder.name

    @property
    def memory(self) -> Path:
        """The guest's memory and devices, as QEMU's migration stream."""
        return self.folder / "memory"

    @property
    def disk(self) -> Path:
        """The guest's changes to its disk, relative to the image."""
        return self.folder / "disk.qcow2"

    @property
    def _about(self) -> Path:
        return self.folder / "about.json"

    def about(self) -> CheckpointInfo:
        """Return its description. Raises OperationFailed if that cannot be read."""
        try:
            data: dict[str, Any] = json.loads(self._about.read_text(encoding="utf-8"))
            return CheckpointInfo(**data)
        except (OSError, ValueError, TypeError) as error:
            raise OperationFailed(f"checkpoint {self.name} is damaged: {error}", self._remedy) from error

    @property
    def _remedy(self) -> str:
        return f"rocelab vm checkpoint rm {self.name}"

    @property
    def size(self) -> int:
        """Bytes that it occupies on the disk."""
        return sum(file.stat().st_blocks * 512 for file in self.folder.iterdir())

    @property
    def used(self) -> float:
        """The time of its creation or last use, in seconds since the epoch; 0 if it is damaged."""
        with contextlib.suppress(FileNotFoundError):
            return self._about.stat().st_mtime
        return 0.0

    def note_use(self) -> None:
        """Record that a VM resumes from it now."""
        self._about.touch()

    def require_fit(self, guest: Guest) -> None:
        """Raise UsageError if ``guest`` cannot resume from it."""
        if self.about().fits != identity(guest):
            raise UsageError(
                f"checkpoint {self.name} is of another image, QEMU, size, folder or version of rocelab", self._remedy
            )

    def remove(self) -> None:
        """Delete it. A VM that has resumed from it does not need it any more."""
        gone = self.folder.with_name(f"{_SAVING}{self.name}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            self.folder.rename(gone)
            shutil.rmtree(gone)


def folder() -> Path:
    """Return the folder of checkpoints: beside the images, or ``$ROCELAB_CHECKPOINTS``."""
    chosen = os.environ.get(SETTING, OFF)
    return cache_root() / "checkpoints" if chosen == OFF else Path(chosen)


def checked_name(name: str) -> str:
    """Return a name from a user. Raises UsageError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a checkpoint", "use up to 63 lower-case letters, digits, dots and dashes"
        )
    return name


def find(name: str) -> Checkpoint | None:
    """Return the checkpoint of this name, or None."""
    found = Checkpoint(folder() / name)
    return found if found.folder.is_dir() else None


def required(name: str) -> Checkpoint:
    """Return the checkpoint of this name. Raises UsageError if there is none."""
    if found := find(checked_name(name)):
        return found
    raise UsageError(f"no checkpoint {name}", "rocelab vm checkpoint ls")


def every() -> list[Checkpoint]:
    """Return all checkpoints, the most recently used first."""
    if not folder().is_dir():
        return []
    found = [Checkpoint(path) for path in folder().iterdir() if not path.name.startswith(".") and path.is_dir()]
    return sorted(found, key=lambda one: -one.used)


def identity(guest: Guest) -> str:
    """Return sixteen hex digits, equal for guests that can resume from each other's states."""
    nowhere = replace(
        guest, console=_NOWHERE, pid_file=_NOWHERE, monitor=_NOWHERE, ports=(_NOWHERE,) * len(guest.ports), resumes=()
    )
    qemu = Path(process.find_tool(guest.arch.qemu, guest.arch.qemu_package)).stat()
    disk = guest.image.disk.stat()
    versions = (of_code(), qemu.st_size, qemu.st_mtime_ns, disk.st_size, disk.st_mtime_ns)
    return hashlib.sha256(json.dumps([guest_argv(nowhere), versions]).encode()).hexdigest()[:16]


def save(name: str, about: CheckpointInfo, write: Callable[[Checkpoint], None]) -> Checkpoint:
    """Create the checkpoint ``name`` from the files that ``write`` creates: completely, or not at all.

    Raises UsageError if the name is in use, and OperationFailed if it cannot be written. Older automatic checkpoints
    are pruned.
    """
    try:
        return _save(name, about, write)
    except OSError as error:
        raise OperationFailed(
            f"checkpoint {name} cannot be written: {error.strerror or error}", f"make room in {folder()}"
        ) from error


def _save(name: str, about: CheckpointInfo, write: Callable[[Checkpoint], None]) -> Checkpoint:
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked():
        if find(name):
            raise UsageError(f"checkpoint {name} exists", f"rocelab vm checkpoint rm {name}")
        for left in folder().glob(f"{_SAVING}*"):
            shutil.rmtree(left, ignore_errors=True)  # another command may be removing it, too
        scratch = Path(tempfile.mkdtemp(prefix=_SAVING, dir=folder()))
        try:
            write(Checkpoint(scratch))
            (scratch / "about.json").write_text(json.dumps(asdict(about), indent=2) + "\n", encoding="utf-8")
            scratch.rename(folder() / name)
        except BaseException:
            shutil.rmtree(scratch)
            raise
        prune()
    return Checkpoint(folder() / name)


def now(what: str, guest: Guest, *, automatic: bool) -> CheckpointInfo:
    """Return the description of a checkpoint made of ``guest`` now."""
    return CheckpointInfo(
        what=what, fits=identity(guest), image=guest.image.hash, saved=time.time(), automatic=automatic
    )


def has_room() -> bool:
    """Return whether the disk has room for an automatic checkpoint."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return shutil.disk_usage(folder()).free > SPARE


def prune() -> None:
    """Remove the automatic checkpoints that were not used lately, and those whose image is gone."""
    automatic = []
    for one in every():
        try:
            about = one.about()
        except OperationFailed:
            continue
        if about.automatic and not (cache_root() / about.image).is_dir():
            one.remove()
        elif about.automatic:
            automatic.append(one)
    for one in automatic[AUTOMATIC:]:
        one.remove()


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    with locks.held(folder() / ".lock", make=True):
        yield
