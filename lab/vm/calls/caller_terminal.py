"""The caller's terminal, while another one in the guest is to be seen on it."""

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
    """Its rows and columns."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return rows, columns


@contextlib.contextmanager
def raw() -> Iterator[None]:
    """Every key goes through as it is, Ctrl-C too; afterwards all is as before."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead stays
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
