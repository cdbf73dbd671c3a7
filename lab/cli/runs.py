"""Which recording a word of the command line names."""

from __future__ import annotations

from pathlib import Path


def folder_of(run: str) -> Path:
    """The directory that RUN names: itself, or the one of that name in recordings/."""
    path = Path(run)
    return path if path.is_dir() or "/" in run else Path("recordings") / run
