"""Wait for a descriptor: ``select.select`` takes none above 1023, which a process with many nodes has."""

from __future__ import annotations

import math
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import HasFileno


def readable(descriptor: int | HasFileno, seconds: float = math.inf) -> bool:
    """Wait until a descriptor can be read, at most some seconds, and return whether it can.

    A pidfd can be read once its process has ended.
    """
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(None if seconds == math.inf else math.ceil(seconds * 1000)))
