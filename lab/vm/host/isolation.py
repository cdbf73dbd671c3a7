"""The guest's access to the host's files: QEMU's user, and the storage of owners and modes that a guest sets.

The guest reads rocelab's code. It writes to the folder of recordings and to folders that the user shares. Files that
its root creates are plain files of one user on the host.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAPPED: Final = "mapped-xattr,fmode=0640,dmode=0750"
"""Owner, mode and kind are xattrs that only guests see: their setuid programs, devices and links are plain files.

Other modes are not possible: QEMU in the background has the umask 027."""
UNMAPPED: Final = "none"
_MODE: Final = "user.virtfs.mode"
"""QEMU's xattr of the mode: four bytes, little-endian (hw/9pfs/9p-local.c)."""


def security_of(folder: Path) -> str:
    """Return the 9p security model for ``folder``: xattrs, if its file system has them."""
    try:
        os.getxattr(folder, _MODE)
    except OSError as error:
        return UNMAPPED if error.errno == errno.ENOTSUP else MAPPED
    return MAPPED


def mode_in_guest(descriptor: int) -> int:
    """Return the mode of an open file, including its kind, as guests see it."""
    try:
        return int.from_bytes(os.getxattr(descriptor, _MODE), "little")
    except OSError:
        return os.fstat(descriptor).st_mode


def user_for(folders: Iterable[Path]) -> tuple[int, int] | None:
    """Return the user and group that QEMU switches to if root starts it: the owner of the shared folders.

    Returns None, and QEMU keeps its user, if that is not root, or if the folders belong to root or to several users.
    """
    if os.geteuid() != 0:
        return None
    owners = {(status.st_uid, status.st_gid) for status in map(os.stat, folders)}
    (owner, *others) = sorted(owners)
    return None if others or owner[0] == 0 else owner


def folder_in(folder: Path, name: str) -> Path | None:
    """Return a folder in ``folder`` with the same owner, created if missing.

    Returns None if it cannot be created, or if it is a link, which is not a mount target.
    """
    made = folder / name
    owner = folder.stat()
    try:
        made.mkdir(exist_ok=True)
        descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The folder is root's if root recorded here before. QEMU would then have to stay root.
        if os.geteuid() == os.fstat(descriptor).st_uid == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    finally:
        os.close(descriptor)
    return made


def cache_for(folder: Path, user: tuple[int, int] | None) -> Path:
    """Return the cache of ``user``'s guests, a folder beside ``folder``, created if missing; ``folder`` if None.

    The user can write to it, but not remove what root has put there for a call (lab/vm/calls/handover.py).
    """
    if user is None:
        return folder
    own = folder.with_name(f"{folder.name}-{user[0]}")
    own.mkdir(mode=0o700, exist_ok=True)
    os.chown(own, 0, user[1])
    own.chmod(0o1770)
    return own


def give(folder: Path, user: tuple[int, int] | None) -> None:
    """Give ``folder``, with all that it contains, to QEMU's user, so that the guest can write there."""
    if user is None:
        return
    for _, folders, files, handle in os.fwalk(folder):
        for name in (*folders, *files):
            os.chown(name, *user, dir_fd=handle, follow_symlinks=False)
    os.chown(folder, *user)
