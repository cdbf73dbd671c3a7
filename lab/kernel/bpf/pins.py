"""Names in the BPF file system: what keeps a fabric's maps and programs, and how later processes find them.

All of a fabric's are below one folder; with it and the interfaces gone, the kernel frees everything.
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
    """The folder of a fabric's pins; names there must not have dots, and those of fabrics have none."""
    return ROOT / fabric


def map_path(folder: Path, name: str) -> Path:
    """Where the map ``name`` is pinned."""
    return folder / "maps" / name


def program_path(folder: Path, name: str) -> Path:
    """Where the program ``name`` is pinned."""
    return folder / "programs" / name


def link_path(folder: Path, name: str) -> Path:
    """Where the link of the struct_ops ``name`` is pinned."""
    return folder / "links" / name


def create(folder: Path, owner: str) -> None:
    """Make an empty folder for pins, with its ``owner`` in it from the first moment that it has its name.

    OperationFailed when the name is taken, EnvironmentLacks without a BPF file system.
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
    """``unpin`` what ``create`` made of ``folder`` for this owner, whole or not, and nothing of anybody else's.

    It has the owner's name before anything in it goes: whoever ends in the midst of it knows the rest again.
    UsageError where the BPF file system is not seen, as in ``ip netns exec``.
    """
    if not BPF_FILES.is_mount():
        raise UsageError(f"{folder} is not seen from here", "leave the node, then rocelab down")
    leaving = folder.with_name(owner)
    unpin(leaving)
    if (folder / owner).is_dir():
        folder.rename(leaving)
        unpin(leaving)


def unpin(folder: Path) -> None:
    """Take everything below ``folder`` out of the BPF file system, and its parent when that is empty then.

    Nothing is fine. What an interface still uses stays in the kernel until the interface has gone.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def open_pinned(path: Path) -> int:
    """A descriptor of a pinned map or program, for the caller to close; OperationFailed when there is none."""
    descriptor: int = library().bpf_obj_get(os.fsencode(path))
    if descriptor < 0:
        number = -descriptor
        if number in {errno.EPERM, errno.EACCES}:
            raise EnvironmentLacks(f"{path} cannot be opened", "run as root")
        raise OperationFailed(f"{path} cannot be opened: {os.strerror(number)}", "rocelab down, then rocelab up")
    return descriptor
