"""Write files that the user named: all of them, or none. On a full disk, files that were there stay as they were."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from lab.errors import writing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_SHORT: Final = 50
"""Characters of a file's name in that of the new file: a name has 255 bytes at most, and a character 4."""


def write_result(path: Path, content: str | bytes, remedy: str = "name another file") -> None:
    """Write one file as ``write_results`` does."""
    write_results({path: content}, remedy)


def write_results(
    files: Mapping[Path, str | bytes], remedy: str = "name another file", *, folders: Collection[Path] = ()
) -> None:
    """Write files, after ``folders`` were created if needed; UsageError if one cannot be written.

    Text is UTF-8. Each file is complete under another name before the first one gets its own. Devices, FIFOs, links,
    and files in folders that the user cannot write keep their places. They are written before any new file gets its
    name. After an error, folders that were created are removed again.
    """
    fresh: dict[Path, Path] = {}
    with ExitStack() as undo:
        for folder in folders:
            with writing(next(iter(files), folder), remedy):
                create_folder(folder, undo)
        for path, content in files.items():
            with writing(path, remedy):
                if _can_be_replaced(path):
                    fresh[path] = _new_file(path, undo)
                    fresh[path].write_bytes(_octets(content))
                    _keep_owner(path, fresh[path])
        for path in [each for each in files if each not in fresh]:
            with writing(path, remedy):
                path.write_bytes(_octets(files[path]))
        for path, complete in fresh.items():
            with writing(path, remedy):
                _rename(complete, path)


def copy_result(source: Path, target: Path, remedy: str) -> None:
    """Copy a folder, complete or not at all, to a name that nothing has; UsageError if it cannot be written."""
    with writing(target, remedy), ExitStack() as undo:
        create_folder(target.parent, undo)
        target.mkdir()
        undo.callback(shutil.rmtree, target, ignore_errors=True)
        try:
            shutil.copytree(source, target, dirs_exist_ok=True)
        except shutil.Error as error:  # it has the message of each file
            raise OSError(error.args[0][0][-1]) from error
        undo.pop_all()


def create_folder(folder: Path, undo: ExitStack) -> None:
    """Create a folder and its parents; ``undo`` removes those that were missing and are still empty.

    Raises OSError if it cannot be created.
    """
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            undo.callback(_removed_if_empty, each)
    folder.mkdir(parents=True, exist_ok=True)


def _can_be_replaced(path: Path) -> bool:
    """Whether a new file may get this name."""
    if path.is_symlink():
        return False
    return not path.exists() or (path.is_file() and os.access(path.parent, os.W_OK | os.X_OK))


def _new_file(path: Path, undo: ExitStack) -> Path:
    """Create a file beside ``path`` with a name that nothing has; ``undo`` removes it."""
    fresh = path.with_name(f".{path.name[:_SHORT]}.{secrets.token_hex(4)}.new")
    fresh.touch(exist_ok=False)
    undo.callback(_removed, fresh)
    return fresh


def _rename(complete: Path, path: Path) -> None:
    """Give a complete file its name. If a file system is mounted there, as in a container, write that file."""
    try:
        complete.replace(path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        path.write_bytes(complete.read_bytes())


def _octets(content: str | bytes) -> bytes:
    return content.encode(errors="replace") if isinstance(content, str) else content


def _keep_owner(old: Path, new: Path) -> None:
    """Give a file the mode and the owner of the one that it replaces, if there is one."""
    with suppress(OSError):
        there = old.stat()
        new.chmod(there.st_mode & 0o7777)
        os.chown(new, there.st_uid, there.st_gid)


def _removed(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _removed_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
