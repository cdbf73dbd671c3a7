"""Recorders that are killed: processes that record and do nothing else, for tests on any kind of fabric."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from lab.kernel.process.process import allow_descriptors
from lab.telemetry.record.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from lab.backends.backend import Fabric


def killed_after(folder: Path, fabric: Fabric, seconds: float) -> int:
    """Record with a process of its own, kill that and its sampler, and return when that was (monotonic ns)."""
    allow_descriptors(64)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _record(folder, fabric, writer)
    os.close(writer)
    with os.fdopen(reader) as said:
        sampler = os.pidfd_open(int(said.readline()))
        time.sleep(seconds)  # a moment that nothing marks is what is asked for
        signal.pidfd_send_signal(sampler, signal.SIGKILL)
        now = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ended = select.poll()
        ended.register(sampler, select.POLLIN)
        assert ended.poll(30_000)
        os.close(sampler)
    return now


def _record(folder: Path, fabric: Fabric, writer: int) -> None:
    with contextlib.suppress(BaseException):
        recorder = Recorder.begin(folder, fabric, state=False)
        recorder.phase("only")
        os.write(writer, f"{recorder.sampler_pid}\n".encode())
        signal.pause()
    os._exit(1)
