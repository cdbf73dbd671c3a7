"""Save a running VM and resume another from it: QEMU's migration to a file and from it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.vm.calls import guest_command
from lab.vm.calls.channel import alone
from lab.vm.host.monitor import monitor
from lab.vm.host.qemu import DISK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.vm.checkpoints.checkpoint import Checkpoint
    from lab.vm.host.monitor import Monitor
    from lab.vm.host.vm_state import StateFolder
    from lab.vm.image.recipe import Image

_SHARES: Final = "/usr/local/lib/rocelab/shares"
"""Guest program that mounts shares: QEMU cannot save a guest with a mounted host folder."""
_LAYER: Final = "layer"
_FILE: Final = "file"
"""Node names in QEMU: the layer with the disk's changes, and the file that contains it."""
_NO_LIMIT: Final = 1 << 40
"""Bandwidth limit for writing a state, in bytes per second: none in effect."""


def save(state: StateFolder, image: Image, into: Checkpoint) -> None:
    """Write the state of the running VM, which is paused meanwhile, into the checkpoint's files.

    Raises OperationFailed if a command runs in it, or a program in it keeps a shared folder busy.
    """
    with alone(state) as port:
        state.frozen.touch()
        try:
            guest_command.run(state, port, _SHARES, "unmount")
            with monitor(state.monitor) as qemu:
                qemu.execute("stop")
                _write_disk(qemu, into, image)
                _write_memory(qemu, into)
        finally:
            _go_on(state, port)


def thaw(state: StateFolder) -> None:
    """Resume a VM whose checkpoint was interrupted, at whatever step."""
    with alone(state) as port:
        _go_on(state, port)


@contextlib.contextmanager
def disk_of(checkpoint: Checkpoint) -> Iterator[tuple[int, int]]:
    """Yield descriptors for writing and reading an unnamed copy of its disk, freed when its last user closes it."""
    # QEMU's own place for temporary disks: /tmp may be in memory.
    with tempfile.TemporaryFile(dir="/var/tmp") as copy, checkpoint.disk.open("rb") as saved:
        shutil.copyfileobj(saved, copy)
        copy.flush()
        with open(f"/proc/self/fd/{copy.fileno()}", "rb") as readable:  # noqa: PTH123 - no path
            yield copy.fileno(), readable.fileno()


def resume(state: StateFolder, checkpoint: Checkpoint) -> None:
    """Resume ``checkpoint`` in a QEMU started for that; mount the shares and set the time of day."""
    with checkpoint.memory.open("rb") as saved, monitor(state.monitor) as qemu:
        qemu.execute("getfd", fdname="memory", descriptor=saved.fileno())
        qemu.migrate("migrate-incoming", "fd:memory")
        qemu.execute("cont")
    with alone(state) as port:
        guest_command.run(state, port, _SHARES, "mount")
        guest_command.run(state, port, "date", "--utc", f"--set=@{time.time():.3f}")


def _go_on(state: StateFolder, port: int) -> None:
    """Run the guest again, with its shares; cancel what was begun and not ended.

    Uses a new connection: on an interrupted one, an answer may still arrive.
    """
    try:
        with monitor(state.monitor) as qemu:
            qemu.end_migration()
            qemu.end_job()
            _remove_layer(qemu)
            qemu.execute("cont")
    except OperationFailed as error:
        raise OperationFailed(f"the VM does not go on: {error}", "rocelab vm down") from error
    guest_command.run(state, port, _SHARES, "mount")
    state.frozen.unlink(missing_ok=True)


def _write_disk(qemu: Monitor, into: Checkpoint, image: Image) -> None:
    """Save the guest's changes to the image.

    drive-backup is not used: it creates its target with the flags of the temporary layer, and QEMU 7.2 then deletes
    the image as if that were temporary.
    """
    size = image.disk.stat().st_size
    layer = {"driver": "qcow2", "file": _FILE, "size": size, "backing-file": str(image.disk), "backing-fmt": "raw"}
    given = _hand(qemu, into.disk, "add-fd")["fdset-id"]
    # No other process uses the file, as with the one in the argument list (lab/vm/host/qemu.py).
    qemu.execute("blockdev-add", driver="file", node_name=_FILE, filename=f"/dev/fdset/{given}", locking="off")
    qemu.job("blockdev-create", options=layer)
    qemu.execute("blockdev-add", driver="qcow2", file=_FILE, node_name=_LAYER, backing=None)
    qemu.job("blockdev-backup", device=DISK, target=_LAYER, sync="top", auto_dismiss=False)
    _remove_layer(qemu)
    # If the caller has gone, QEMU does this itself as soon as the guest runs.
    qemu.execute("remove-fd", fdset_id=given)


def _remove_layer(qemu: Monitor) -> None:
    there = {node["node-name"] for node in qemu.execute("query-named-block-nodes")}
    for node in (_LAYER, _FILE):
        if node in there:
            qemu.execute("blockdev-del", node_name=node)


def _write_memory(qemu: Monitor, into: Checkpoint) -> None:
    _hand(qemu, into.memory, "getfd", fdname="memory")
    qemu.execute("migrate-set-parameters", max_bandwidth=_NO_LIMIT)
    qemu.migrate("migrate", "fd:memory")


def _hand(qemu: Monitor, new: Path, command: str, **arguments: str) -> Any:
    """Create the file, pass its descriptor to QEMU, whose user may not reach it, and return the command's result."""
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return qemu.execute(command, descriptor=descriptor, **arguments)
    finally:
        os.close(descriptor)
