"""Where a user's built things are kept between runs: whatever is there can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(what: str) -> Path:
    """``$XDG_CACHE_HOME/rocelab/WHAT``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocelab" / what
