"""Where a user's things are kept between runs: what was built, which can be made again, and what is to stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_ROOTS: Final = Path("/var/cache/rocelab")


def user_cache(what: str) -> Path:
    """``$XDG_CACHE_HOME/rocelab/WHAT``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocelab" / what


def user_state(what: str) -> Path:
    """``$XDG_STATE_HOME/rocelab/WHAT``, by default below ``~/.local/state``: what cannot be made again."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "rocelab" / what


def kernel_cache(what: str) -> Path:
    """The same for what is loaded into the kernel: root takes that from nowhere where another may write.

    With sudo(8) the home may be a user's: then it is ``/var/cache/rocelab/WHAT``, and nothing of root's comes there.
    """
    folder = user_cache(what)
    return folder if os.geteuid() != 0 or _is_roots(folder) else _ROOTS / what


def _is_roots(folder: Path) -> bool:
    """Whether only root can put something there; with the sticky bit nobody takes the place of what is root's."""
    real = folder.resolve()
    states = [each.stat() for each in (real, *real.parents) if each.exists()]
    return all(state.st_uid == 0 and (not state.st_mode & 0o022 or state.st_mode & stat.S_ISVTX) for state in states)
