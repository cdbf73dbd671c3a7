"""Ends TCP connections of a namespace from outside (sock_diag(7)), as ``ss --kill`` does.

A connection whose program has ended still sends its queue, for minutes if nothing acknowledges it. Meanwhile it keeps
its namespace alive, and so everything on the namespace's loopback.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.netlink.client import NetlinkClient, netlink_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DESTROY: Final = 21
_WANTED: Final = struct.Struct("=BBxxI48s")  # inet_diag_req_v2: family, protocol, states, sockid
_FOUND: Final = struct.Struct("=Bxxx48s")  # the beginning of inet_diag_msg: family, sockid
_CONNECTED: Final = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
"""States of <net/tcp_states.h>: all but LISTEN and those that keep no namespace alive."""
_IN_USE: Final = re.compile(r"^TCP6?: inuse ([0-9]+)", re.MULTILINE)
_FINE: Final = {errno.ENOENT, errno.EOPNOTSUPP}
"""The connection ended by itself, or this kernel cannot end it: it then lasts until the kernel times it out."""


def end_all() -> None:
    """End all TCP connections of the calling thread's namespace; their peers get a reset.

    Raises OperationFailed if the kernel refuses. Before Linux 6.11 connections without a program are not ended.
    """
    if not _any():
        return
    try:
        with NetlinkClient(netlink_socket(_NETLINK_SOCK_DIAG)) as client:
            for family in (socket.AF_INET, socket.AF_INET6):
                _end_family(client, family)
    except OSError as error:
        raise OperationFailed(f"TCP connections cannot be ended: {error.strerror}") from error


def _end_family(client: NetlinkClient, family: int) -> None:
    """End the connections of one address family."""
    with _tolerated():
        for answer in client.dump(_BY_FAMILY, _WANTED.pack(family, socket.IPPROTO_TCP, _CONNECTED, bytes(48))):
            which, identity = _FOUND.unpack_from(answer)
            with _tolerated():
                client.execute(_DESTROY, _WANTED.pack(which, socket.IPPROTO_TCP, _CONNECTED, identity))


@contextlib.contextmanager
def _tolerated() -> Iterator[None]:
    """Ignore the refusals in ``_FINE``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FINE:
            raise


def _any() -> bool:
    """Return whether there is a TCP socket: listing them by netlink may load kernel modules."""
    tables = (Path("/proc/thread-self/net", name) for name in ("sockstat", "sockstat6"))
    said = "".join(table.read_text(encoding="ascii") for table in tables if table.exists())
    return any(int(number) for number in _IN_USE.findall(said))
