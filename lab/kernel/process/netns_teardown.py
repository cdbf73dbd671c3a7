"""A lock that keeps the teardown of network namespaces and the removal of RDMA devices apart.

The kernel tears namespaces down later, one after another. In its shared mode the RDMA subsystem shows a device in
every namespace. Removing the device removes these copies without waiting for a namespace that is being torn down. The
event then goes to a socket that no longer exists: a NULL pointer dereference in kobject_uevent_env, seen on Linux
7.3. After that, nothing on the machine can remove an interface any more.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import libc, locks, process, threads

if TYPE_CHECKING:
    from collections.abc import Iterator

RDMA_DEVICES: Final = Path("/sys/class/infiniband")
"""The directory of RDMA devices. The machine-wide lock is on it, and needs no file of its own."""
_SELF: Final = "/proc/thread-self/ns/net"
_WITNESS: Final = "witness0"
_POLL: Final = 0.001
_PATIENCE: Final = 60.0


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Release namespaces inside this block. It waits for ``none_ending`` blocks of any process."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):  # no RDMA, no crash to prevent
            stack.enter_context(locks.sharing(RDMA_DEVICES))
        yield


@contextlib.contextmanager
def none_ending() -> Iterator[None]:
    """Change RDMA devices inside this block: one at a time, while no namespace of rocelab's is torn down. Needs root.

    It begins when the kernel has torn down all namespaces that ended before. Raises FileNotFoundError without RDMA,
    and OperationFailed if the kernel does not finish the teardown.
    """
    with locks.held(RDMA_DEVICES):
        witness = threads.in_thread(_await_ended)
        try:
            yield
        finally:
            os.close(witness)


def _await_ended() -> int:
    """Wait until the kernel has torn down all namespaces that ended before.

    Ends one more namespace, which is the last in the queue, and waits until a veth linked to it is gone. Returns a
    descriptor that keeps the veth's other namespace alive. Changes the calling thread's namespace.
    """
    libc.unshare(libc.CLONE_NEWNET)
    here = os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc.unshare(libc.CLONE_NEWNET)
        ends = ["ip", "link", "add", _WITNESS, "type", "veth", "peer", _WITNESS, "netns", f"/proc/self/fd/{here}"]
        process.run(ends, keep=(here,))
        libc.setns(here, libc.CLONE_NEWNET)
        deadline = time.monotonic() + _PATIENCE
        while any(name == _WITNESS for _, name in socket.if_nameindex()):
            if time.monotonic() > deadline:
                raise OperationFailed("the kernel does not take apart namespaces that have ended", "see dmesg")
            time.sleep(_POLL)
    except BaseException:
        os.close(here)
        raise
    return here
