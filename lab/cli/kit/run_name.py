"""Which recording a word of the command line names, and what files about several recordings are called."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def folder_of(run: str) -> Path:
    """The directory that RUN names: itself, or the one of that name in recordings/."""
    path = Path(run)
    return path if path.is_dir() or "/" in run else Path("recordings") / run


def file_stems(runs: Sequence[Path], reserved: Collection[str] = ()) -> list[str]:
    """A file name without its ending for each directory, in their order, each another one and none of ``reserved``.

    It is the directory's name, with as many of the directories above it in front as tell it from the others.
    """
    parts = [run.resolve().parts[1:] for run in runs]
    used = set(reserved)
    stems = []
    for own in parts:
        stem = _shortest(own, parts)
        numbered = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        stems.append(next(name for name in numbered if name not in used))
        used.add(stems[-1])
    return stems


def _shortest(own: tuple[str, ...], every: Sequence[tuple[str, ...]]) -> str:
    """The least of its last parts that no other path ends with, joined; all of them where another is the same."""
    for depth in range(1, len(own) + 1):
        if sum(other[-depth:] == own[-depth:] for other in every) == 1:
            return "-".join(own[-depth:])
    return own[-1] if own else "recording"
