"""A running VM is saved, and another continues from what was saved: QEMU's migration, into a file and out of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.vm import errand
from lab.vm.channel import alone
from lab.vm.monitor import monitor
from lab.vm.qemu import DISK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.vm.checkpoint import Checkpoint
    from lab.vm.monitor import Monitor
    from lab.vm.recipe import Image
    from lab.vm.state import StateFolder

_SHARES: Final = "/usr/local/lib/rocelab/shares"
"""QEMU does not save a guest that has a folder of the host mounted."""
_NO_LIMIT: Final = 1 << 40
"""Octets per second at which a state is written."""


def save(state: StateFolder, image: Image, into: Checkpoint) -> None:
    """Write the state of the running VM, which stands still meanwhile, into the checkpoint's files.

    OperationFailed when a command runs in it, or a program in it keeps a shared folder busy.
    """
    with alone(state) as port:
        state.frozen.touch()
        try:
            errand.run(state, port, _SHARES, "unmount")
            with monitor(state.monitor) as qemu, _stopped(qemu):
                _write_disk(qemu, into, image)
                _write_memory(qemu, into)
        except _Stuck:
            raise
        except BaseException:
            _mount(state, port)
            raise
        _mount(state, port)


def thaw(state: StateFolder) -> None:
    """Have a VM go on whose saving was cut short."""
    with alone(state) as port:
        with monitor(state.monitor) as qemu:
            if qemu.execute("query-status")["status"] == "finish-migrate":
                qemu.execute("migrate_cancel")
            qemu.execute("cont")
        _mount(state, port)


@contextlib.contextmanager
def disk_of(checkpoint: Checkpoint) -> Iterator[tuple[int, int]]:
    """A copy of its disk that has no name and ends with its last user: descriptors to write and to read it."""
    # Where QEMU itself puts what is thrown away: /tmp may be memory.
    with tempfile.TemporaryFile(dir="/var/tmp") as copy, checkpoint.disk.open("rb") as saved:
        shutil.copyfileobj(saved, copy)
        copy.flush()
        with open(f"/proc/self/fd/{copy.fileno()}", "rb") as readable:  # noqa: PTH123 - no path
            yield copy.fileno(), readable.fileno()


def resume(state: StateFolder, checkpoint: Checkpoint) -> None:
    """Have a QEMU that was started to continue from ``checkpoint`` do so, with its shares and the time of day."""
    with monitor(state.monitor) as qemu, checkpoint.memory.open("rb") as saved:
        qemu.execute("getfd", fdname="memory", descriptor=saved.fileno())
        qemu.migrate("migrate-incoming", "fd:memory")
        qemu.execute("cont")
    with alone(state) as port:
        errand.run(state, port, _SHARES, "mount")
        errand.run(state, port, "date", "--utc", f"--set=@{time.time():.3f}")


def _mount(state: StateFolder, port: int) -> None:
    errand.run(state, port, _SHARES, "mount")
    state.frozen.unlink(missing_ok=True)


class _Stuck(OperationFailed):
    """The VM does not go on."""


@contextlib.contextmanager
def _stopped(qemu: Monitor) -> Iterator[None]:
    qemu.execute("stop")
    try:
        yield
    finally:
        try:
            qemu.execute("cont")
        except OperationFailed as error:
            raise _Stuck(str(error), "rocelab vm down") from error


def _write_disk(qemu: Monitor, into: Checkpoint, image: Image) -> None:
    """What the guest has written over the image.

    Not by drive-backup, which creates its target with the flags of our throw-away layer: QEMU 7.2 then deletes the
    image as if that were to be thrown away.
    """
    size = image.disk.stat().st_size
    layer = {"driver": "qcow2", "file": "file", "size": size, "backing-file": str(image.disk), "backing-fmt": "raw"}
    given = _hand(qemu, into.disk, "add-fd")["fdset-id"]
    # Nobody else has it, as the one that the argument list gives (lab/vm/qemu.py).
    qemu.execute("blockdev-add", driver="file", node_name="file", filename=f"/dev/fdset/{given}", locking="off")
    try:
        qemu.job("blockdev-create", options=layer)
        qemu.execute("blockdev-add", driver="qcow2", file="file", node_name="layer", backing=None)
        try:
            qemu.job("blockdev-backup", device=DISK, target="layer", sync="top", auto_dismiss=False)
        finally:
            qemu.execute("blockdev-del", node_name="layer")
    finally:
        qemu.execute("blockdev-del", node_name="file")
        qemu.execute("remove-fd", fdset_id=given)


def _write_memory(qemu: Monitor, into: Checkpoint) -> None:
    _hand(qemu, into.memory, "getfd", fdname="memory")
    qemu.execute("migrate-set-parameters", max_bandwidth=_NO_LIMIT)
    qemu.migrate("migrate", "fd:memory")


def _hand(qemu: Monitor, new: Path, command: str, **arguments: str) -> Any:
    """Make the file and give it open to QEMU, whose user may not reach it; what the command returns."""
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return qemu.execute(command, descriptor=descriptor, **arguments)
    finally:
        os.close(descriptor)
