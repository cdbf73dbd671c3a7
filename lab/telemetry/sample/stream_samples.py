"""Stream the samples of a fabric to a pipe: the source of ``rocelab top`` and ``live``, wherever it runs."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process.signals import received
from lab.telemetry.sample.sampler_setup import watching

if TYPE_CHECKING:
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.telemetry.sample.child_process import ChildProcess

_LOOK: Final = 1.0
"""Seconds between two checks whether the fabric still exists and the pipe is still read."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def write_samples(fabric: Fabric, hz: float, descriptor: int, view: Path | None = None) -> None:
    """Write the recorder's log to a descriptor until its reader leaves, or a signal requests the end.

    With ``view``, also events of ports, commands and jobs: see ``watching``. OperationFailed if the fabric goes away
    meanwhile.
    """
    with received(_ENDING) as signals:
        try:
            sampler = watching(fabric, hz, os.dup(descriptor), view)
        except BrokenPipeError:
            return
        try:
            gone = _is_gone_at_the_end(sampler, signals, descriptor)
        finally:
            sampler.end()
    if gone:
        raise OperationFailed(f"fabric {fabric.name} was taken down", "rocelab ls lists running fabrics")


def _is_gone_at_the_end(sampler: ChildProcess, signals: int, descriptor: int) -> bool:
    """Wait for a signal, the reader's end, or the fabric's end; return whether it was the fabric's."""
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
    """Whether the pipe accepts data. While its reader is suspended, the sampler blocks and answers no requests."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    return bool(room.poll(0))
