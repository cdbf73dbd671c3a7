"""Write files that the user named: all of them, or none. On a full disk, files that were there stay as they were."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from lab.errors import writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_result(path: Path, content: str | bytes, remedy: str = "name another file") -> None:
    """Write one file as ``write_results`` does."""
    write_results({path: content}, remedy)


def write_results(
    files: Mapping[Path, str | bytes], remedy: str = "name another file", *, folder: Path | None = None
) -> None:
    """Write files, after ``folder`` was created if needed; UsageError if one cannot be written.

    Text is UTF-8. Each file is complete under another name before the first one gets its own. A device, a FIFO or a
    link keeps its place, and is written last.
    """
    if folder is not None:
        with writing(next(iter(files), folder), remedy):
            folder.mkdir(parents=True, exist_ok=True)
    fresh: dict[Path, Path] = {}
    with ExitStack() as undo:
        for path, content in files.items():
            with writing(path, remedy):
                if not path.is_symlink() and (path.is_file() or not path.exists()):
                    fresh[path] = path.with_name(f".{path.name}.new")
                    undo.callback(_removed, fresh[path])
                    fresh[path].write_bytes(_octets(content))
                    _keep_owner(path, fresh[path])
        for path, content in files.items():
            with writing(path, remedy):
                if path in fresh:
                    fresh[path].replace(path)
                else:
                    path.write_bytes(_octets(content))


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
