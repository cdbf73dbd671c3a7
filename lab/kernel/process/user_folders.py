"""Folders that persist between runs: the cache, which can be rebuilt, and the state, which cannot."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

STATE_HOME: Final = "XDG_STATE_HOME"
"""The variable that names the base folder of the state (XDG Base Directory Specification)."""
_ROOTS: Final = Path("/var/cache/rocelab")


def user_cache(what: str) -> Path:
    """Return ``$XDG_CACHE_HOME/rocelab/WHAT``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocelab" / what


def user_state(what: str) -> Path:
    """Return ``$XDG_STATE_HOME/rocelab/WHAT``, by default below ``~/.local/state``, for what cannot be rebuilt."""
    base = os.environ.get(STATE_HOME) or str(Path.home() / ".local" / "state")
    return Path(base) / "rocelab" / what


def kernel_cache(what: str) -> Path:
    """Return the cache folder of files that are loaded into the kernel: for root, one that only root can write.

    With sudo(8) the home may be a user's. The folder is then ``/var/cache/rocelab/WHAT``, and root writes nothing in
    the user's home.
    """
    folder = user_cache(what)
    return folder if os.geteuid() != 0 or is_roots(folder) else _ROOTS / what


def is_roots(folder: Path) -> bool:
    """Return whether root alone can replace files there: root owns all parents, and writable ones are sticky."""
    real = folder.resolve()
    states = [each.stat() for each in (real, *real.parents) if each.exists()]
    return all(state.st_uid == 0 and (not state.st_mode & 0o022 or state.st_mode & stat.S_ISVTX) for state in states)
