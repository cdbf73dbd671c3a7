"""The end of network namespaces, during which no RDMA device must be removed.

The kernel takes a namespace apart later and by itself, one after another. In its shared mode the RDMA subsystem shows
a device in every namespace; who removes it takes these copies away and does not wait for a namespace that is ending
meanwhile, but tells of it through a socket that has gone by then: a NULL pointer dereference in kobject_uevent_env,
seen on Linux 7.3, after which nothing on the machine can remove an interface any more.
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
"""The directory of the devices, on which the machine's lock is, so that it needs no file of its own."""
_SELF: Final = "/proc/thread-self/ns/net"
_WITNESS: Final = "witness0"
_POLL: Final = 0.001
_PATIENCE: Final = 60.0


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Around what lets go of namespaces: it waits for blocks of ``none_ending``, of whatever process."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):  # no RDMA, nothing to spare
            stack.enter_context(locks.sharing(RDMA_DEVICES))
        yield


@contextlib.contextmanager
def none_ending() -> Iterator[None]:
    """Hold the machine to one change of RDMA devices, and no namespace of rocelab's to its end meanwhile. Needs root.

    Begins when the namespaces that ended before have been taken apart. FileNotFoundError where there is no RDMA,
    OperationFailed when the kernel does not come to an end with them.
    """
    with locks.held(RDMA_DEVICES):
        witness = threads.in_thread(_await_ended)
        try:
            yield
        finally:
            os.close(witness)


def _await_ended() -> int:
    """End one more namespace, and wait until an interface that was linked to it has gone: it is the last in turn.

    Returns a descriptor of the namespace with that interface, so that it does not end now. In whatever namespace that
    leaves the calling thread.
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
