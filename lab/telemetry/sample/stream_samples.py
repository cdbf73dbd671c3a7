"""Samples of a fabric for somebody who reads along over a pipe: what ``rocelab top`` shows, wherever it runs."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process.signals import received
from lab.telemetry.sample.sampler_setup import watching

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.telemetry.sample.child_process import Offspring

_LOOK: Final = 1.0
"""Seconds between two looks whether there is still something to sample, and somebody who reads."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def write_samples(fabric: Fabric, hz: float, descriptor: int) -> None:
    """Write the recorder's log to a descriptor until nobody reads it, or a signal asks to end.

    OperationFailed when the fabric goes away meanwhile.
    """
    with received(_ENDING) as signals:
        try:
            sampler = watching(fabric, hz, os.dup(descriptor))
        except BrokenPipeError:
            return
        try:
            gone = _is_gone_at_the_end(sampler, signals, descriptor)
        finally:
            sampler.end()
    if gone:
        raise OperationFailed(f"fabric {fabric.name} was taken down", "rocelab ls lists running fabrics")


def _is_gone_at_the_end(sampler: Offspring, signals: int, descriptor: int) -> bool:
    """Wait for a signal, a reader who leaves, or the fabric to go, and tell whether it is that."""
    watched = select.poll()
    watched.register(signals, select.POLLIN)
    watched.register(descriptor, 0)
    while not watched.poll(_LOOK * 1000):
        if not _is_read(descriptor):
            continue
        try:
            said = sampler.ask({"do": "look"})
        except OperationFailed:
            if _is_read(descriptor):
                raise
            continue
        if said["gone"] or said["failure"]:
            return bool(said["gone"])
    return False


def _is_read(descriptor: int) -> bool:
    """Whether more can be written. While a reader is suspended, the sampler waits for it and answers nobody."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    return bool(room.poll(0))
