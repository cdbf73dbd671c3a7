"""Find the recording that an argument names, and name files about several recordings."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from lab.telemetry.store.recording_folder import Folder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def folder_of(run: str) -> Path:
    """Return the directory that RUN names: a path, or a name in recordings/.

    A file or another directory of that name in the current one, which is no recording, hides none in recordings/.
    """
    path, kept = Path(run), Path("recordings") / run
    if "/" in run or Folder(path).about.is_file():
        return path
    return path if path.exists() and not kept.is_dir() else kept


def file_stems(runs: Sequence[Path], reserved: Collection[str] = ()) -> list[str]:
    """Return a unique file name without suffix for each directory, in their order, and none of ``reserved``.

    It is the directory's name, prefixed with as many parent directories as needed to distinguish it from the others.
    """
    parts = [Path(os.path.realpath(run)).parts[1:] for run in runs]
    used = set(reserved)
    stems = []
    for own in parts:
        stem = _shortest(own, parts)
        numbered = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        stems.append(next(name for name in numbered if name not in used))
        used.add(stems[-1])
    return stems


def _shortest(own: tuple[str, ...], every: Sequence[tuple[str, ...]]) -> str:
    """Return the fewest last parts that no other path ends with, joined; only the last part if paths are equal."""
    for depth in range(1, len(own) + 1):
        if sum(other[-depth:] == own[-depth:] for other in every) == 1:
            return "-".join(own[-depth:])
    return own[-1] if own else "recording"
