"""Work in threads made for it, which alone are moved into namespaces, never the main one.

A signal's handler may run as soon as setns(2) returns, and whoever is in a node then seems to run there, to be ended
with it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from lab.kernel.process import libc, signals

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_NETWORK: Final = Path("/proc/thread-self/ns/net")


def in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, and hand on its result or error; the network that it moved into is left.

    Left before its end is told: the kernel has a thread that was joined keep its namespace for milliseconds more.
    Signals wait for its end: the caller must not start to undo what the thread is still doing.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
            failure.append(error)
        # Whoever did not move may not be allowed to.
        if not os.path.samestat(os.fstat(home), _NETWORK.stat()):
            libc.setns(home, libc.CLONE_NEWNET)

    worker = threading.Thread(target=body)
    with signals.held():
        home = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
        try:
            worker.start()
            worker.join()
        finally:
            os.close(home)
    if failure:
        raise failure[0]
    return outcome[0]
