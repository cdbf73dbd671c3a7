"""What a guest can do to the host's files: whose QEMU is, and how it keeps the owners and modes that a guest gives.

It reads rocelab's code, and writes where results are kept and where the user lets it. What its root makes on the host
are plain files, of one user.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAPPED: Final = "mapped-xattr,fmode=0640,dmode=0750"
"""Owner, mode and kind are attributes for guests alone: their setuid programs, devices and links are plain files.

More modes cannot be had: QEMU in the background has the umask 027."""
UNMAPPED: Final = "none"
_MODE: Final = "user.virtfs.mode"
"""Where QEMU keeps the mode: four octets, the least significant first (hw/9pfs/9p-local.c)."""


def security_of(folder: Path) -> str:
    """How the guest's owners and modes are kept below ``folder``: as attributes, where its file system has such."""
    try:
        os.getxattr(folder, _MODE)
    except OSError as error:
        return UNMAPPED if error.errno == errno.ENOTSUP else MAPPED
    return MAPPED


def mode_in_guest(descriptor: int) -> int:
    """The mode of an open file as guests see it, with its kind."""
    try:
        return int.from_bytes(os.getxattr(descriptor, _MODE), "little")
    except OSError:
        return os.fstat(descriptor).st_mode


def user_for(folders: Iterable[Path]) -> tuple[int, int] | None:
    """User and group that QEMU is to be when root starts it: whoever the shared folders belong to.

    None where it stays who starts it: that is no root, or one of the folders is root's, or they are of several.
    """
    if os.geteuid() != 0:
        return None
    owners = {(status.st_uid, status.st_gid) for status in map(os.stat, folders)}
    (owner, *others) = sorted(owners)
    return None if others or owner[0] == 0 else owner


def folder_in(folder: Path, name: str) -> Path | None:
    """A folder in ``folder`` and of the same owner, made where it is not there.

    None where it cannot be made, or is a link, to which nothing is mounted.
    """
    made = folder / name
    owner = folder.stat()
    try:
        made.mkdir(exist_ok=True)
        descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # One of root's, from when root recorded here: with it QEMU would stay root.
        if os.geteuid() == os.fstat(descriptor).st_uid == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    finally:
        os.close(descriptor)
    return made


def cache_for(folder: Path, user: tuple[int, int] | None) -> Path:
    """Beside ``folder``, the cache of the guests of ``user``, made where it is not there; for None ``folder`` itself.

    The user can write to it, and not take away what root has put there for a call (lab/vm/calls/handover.py).
    """
    if user is None:
        return folder
    own = folder.with_name(f"{folder.name}-{user[0]}")
    own.mkdir(mode=0o700, exist_ok=True)
    os.chown(own, 0, user[1])
    own.chmod(0o1770)
    return own


def give(folder: Path, user: tuple[int, int] | None) -> None:
    """Make ``folder`` and all that is in it the files of QEMU's user, whose guest is to write there."""
    if user is None:
        return
    for _, folders, files, handle in os.fwalk(folder):
        for name in (*folders, *files):
            os.chown(name, *user, dir_fd=handle, follow_symlinks=False)
    os.chown(folder, *user)
