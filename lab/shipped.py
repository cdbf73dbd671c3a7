"""Files shipped beside the code: inside an installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
_INSTALLED: Final = PACKAGE / "shipped"
_CHECKOUT: Final = PACKAGE.parent


def is_installed() -> bool:
    """Return whether the package was installed from a wheel instead of a checkout."""
    return _INSTALLED.is_dir()


def shipped(name: str) -> Path:
    """Return the path of ``topologies``, ``scenarios`` or an entry of ``scripts``, even if it does not exist."""
    return (_INSTALLED if is_installed() else _CHECKOUT) / name
