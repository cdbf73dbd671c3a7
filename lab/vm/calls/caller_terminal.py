"""The caller's terminal while it shows a terminal in the guest."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def size() -> tuple[int, int]:
    """Return the terminal's rows and columns."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return rows, columns


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Pass every key on unchanged, including Ctrl-C; restore the terminal afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keeps input that was typed ahead
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
