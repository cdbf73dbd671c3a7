"""Tests have one thread and no signals, so they enter namespaces themselves; rocelab uses threads of its own."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.kernel.process import libc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.netns import Namespace


@contextmanager
def entered(namespace: Namespace) -> Iterator[None]:
    """The calling thread, and the programs and sockets it starts, are in the namespace meanwhile."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespace.enter()
        try:
            yield
        finally:
            libc.setns(home, libc.CLONE_NEWNET)
    finally:
        os.close(home)
