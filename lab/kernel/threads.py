"""Work in threads made for it, which alone are moved into namespaces, never the main one.

A signal's handler may run as soon as setns(2) returns, and whoever is in a node then seems to run there, to be ended
with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from lab.kernel import signals

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, whose namespaces end with it, and hand on its result or error.

    Signals wait for its end: the caller must not start to undo what the thread is still doing.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
            failure.append(error)

    worker = threading.Thread(target=body)
    with signals.held():
        worker.start()
        worker.join()
    if failure:
        raise failure[0]
    return outcome[0]
