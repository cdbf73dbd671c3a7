"""Write the files of an export into a new folder, all or none."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lab.errors import UsageError, writing
from lab.result_files import create_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

Files: TypeAlias = "Mapping[str, str]"
"""File contents by path in the folder."""


def write(files: Files, folder: Path) -> None:
    """Create ``folder`` with these files; raise UsageError if it is not empty, or cannot be written."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is there, and is no folder", "name another with -o")
    with writing(folder, "name another folder with -o"), ExitStack() as undo:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"folder {folder} is not empty", "name another with -o, or remove it")
        create_folder(folder.absolute().parent, undo)
        making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent))
        try:
            _fill(making, files)
            making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


def _fill(folder: Path, files: Files) -> None:
    folder.chmod(0o755)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
