"""Text from recordings, captures and programs, made safe to print on a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""C0 without tab and newline, DEL, and C1 (ECMA-48 clause 5): a terminal may execute these characters."""


def printable(text: str) -> str:
    """Return ``text`` without control characters except tab and newline: it cannot move a cursor or set a title."""
    return _CONTROLS.sub("", text)
