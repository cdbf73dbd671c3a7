"""Pins in the BPF file system: they keep a fabric's maps and programs, and later processes find them there.

All pins of a fabric are below one folder. When it and the interfaces are gone, the kernel frees everything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path
from typing import Final

from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.bpf.libbpf import library

BPF_FILES: Final = Path("/sys/fs/bpf")
ROOT: Final = BPF_FILES / "rocelab"
_KINDS: Final = ("maps", "programs", "links")


def folder_of(fabric: str) -> Path:
    """Return the folder of a fabric's pins. BPF file names must not have dots, and fabric names have none."""
    return ROOT / fabric


def map_path(folder: Path, name: str) -> Path:
    """Return the path on which the map ``name`` is pinned."""
    return folder / "maps" / name


def program_path(folder: Path, name: str) -> Path:
    """Return the path on which the program ``name`` is pinned."""
    return folder / "programs" / name


def link_path(folder: Path, name: str) -> Path:
    """Return the path on which the link of the struct_ops or program ``name`` is pinned."""
    return folder / "links" / name


def create(folder: Path, owner: str) -> None:
    """Create an empty folder for pins. It contains its ``owner`` from the moment it has its name.

    Raises OperationFailed if the name is in use, and EnvironmentLacks without a BPF file system.
    """
    if not BPF_FILES.is_mount():
        raise EnvironmentLacks(f"no BPF file system at {BPF_FILES}", f"mount -t bpf bpf {BPF_FILES}")
    fresh = folder.with_name(owner)
    try:
        for kind in (owner, *_KINDS):
            (fresh / kind).mkdir(mode=0o700, parents=True)
        fresh.rename(folder)
    except PermissionError as error:
        raise EnvironmentLacks(f"{folder} cannot be made", "run as root") from error
    except OSError as error:
        unpin(fresh)
        raise OperationFailed(f"{folder} exists", "rocelab down, if it is a fabric's") from error


def unpin_own(folder: Path, owner: str) -> None:
    """Remove what ``create`` made of ``folder`` for this owner, complete or not, and nothing of another owner.

    The folder gets the owner's name before anything in it is removed, so that an interrupted removal can be resumed.
    Raises UsageError where the BPF file system is not visible, as in ``ip netns exec``.
    """
    if not BPF_FILES.is_mount():
        raise UsageError(f"{folder} is not seen from here", "leave the node, then rocelab down")
    leaving = folder.with_name(owner)
    unpin(leaving)
    if (folder / owner).is_dir():
        folder.rename(leaving)
        unpin(leaving)


def unpin(folder: Path) -> None:
    """Remove all pins below ``folder``, and its parent if that is empty then. A missing folder is fine.

    What an interface still uses stays in the kernel until the interface is gone.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def open_pinned(path: Path) -> int:
    """Return a descriptor of a pinned map or program, for the caller to close. Raises OperationFailed without one."""
    descriptor: int = library().bpf_obj_get(os.fsencode(path))
    if descriptor < 0:
        number = -descriptor
        if number in {errno.EPERM, errno.EACCES}:
            raise EnvironmentLacks(f"{path} cannot be opened", "run as root")
        raise OperationFailed(f"{path} cannot be opened: {os.strerror(number)}", "rocelab down, then rocelab up")
    return descriptor
