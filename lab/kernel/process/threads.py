"""Run work that changes namespace in a thread of its own; the main thread never changes namespace.

A signal handler may run as soon as setns(2) returns. A main thread in a node would then be ended with the node's
processes.
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
    """Run ``work`` in a new thread, and return its result or raise its error.

    The thread returns to the caller's network namespace before it ends, because the kernel frees a joined thread's
    namespace some milliseconds late. Signals are held until then: the caller must not undo work that still runs.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failure.append(error)
        # A thread that did not move may lack the permission for setns(2).
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
