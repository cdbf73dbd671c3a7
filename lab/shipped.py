"""What comes with rocelab beside its code: inside an installed package, and at the top of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
_INSTALLED: Final = PACKAGE / "shipped"
_CHECKOUT: Final = PACKAGE.parent


def is_installed() -> bool:
    """Whether the package was installed from a wheel, and not from a checkout."""
    return _INSTALLED.is_dir()


def shipped(name: str) -> Path:
    """The place of ``topologies``, ``scenarios`` or what is in ``scripts``, whether it is there or not."""
    return (_INSTALLED if is_installed() else _CHECKOUT) / name
