"""TCP connections of a namespace ended from outside (sock_diag(7)), as ``ss --kill`` does.

One whose program has ended still sends what was queued, for minutes when nobody acknowledges it. As long as it does,
it keeps its namespace, and so all that is on the loopback of that.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
from pathlib import Path
from typing import Final

from lab.errors import OperationFailed

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DESTROY: Final = 21
_REQUEST: Final = 0x0001
_ACKNOWLEDGE: Final = 0x0004
_DUMP: Final = 0x0300
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_WANTED: Final = struct.Struct("=BBxxI48s")  # inet_diag_req_v2: family, protocol, states, sockid
_FOUND: Final = struct.Struct("=Bxxx48s")  # how inet_diag_msg begins: family, sockid
_CODE: Final = struct.Struct("=i")
_ERROR: Final = 2
_DONE: Final = 3
_CONNECTED: Final = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
"""States of <net/tcp_states.h>: all but those that wait for callers, and those that keep no namespace."""
_BUFFER: Final = 1 << 16
_IN_USE: Final = re.compile(r"^TCP6?: inuse ([0-9]+)", re.MULTILINE)
_FINE: Final = {errno.ENOENT, errno.EOPNOTSUPP}
"""It ended by itself, or this kernel ends none: then it goes when the kernel gives it up."""


def end_all() -> None:
    """End the TCP connections of the calling thread's namespace, whoever's they are; their peers get a reset.

    OperationFailed when the kernel refuses. Before Linux 6.11 it leaves those without a program as they are.
    """
    if not _any():
        return
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _WANTED.pack(family, socket.IPPROTO_TCP, _CONNECTED, bytes(48))
            for answer in _asked(link, _BY_FAMILY, _DUMP, request):
                which, identity = _FOUND.unpack_from(answer)
                _asked(link, _DESTROY, _ACKNOWLEDGE, _WANTED.pack(which, socket.IPPROTO_TCP, _CONNECTED, identity))


def _any() -> bool:
    """Whether there is a TCP socket; asking the kernel for a list of them may load modules."""
    tables = (Path("/proc/thread-self/net", name) for name in ("sockstat", "sockstat6"))
    said = "".join(table.read_text(encoding="ascii") for table in tables if table.exists())
    return any(int(number) for number in _IN_USE.findall(said))


def _asked(link: socket.socket, kind: int, flags: int, content: bytes) -> list[bytes]:
    """What sock_diag answers to one request."""
    link.send(_HEADER.pack(_HEADER.size + len(content), kind, _REQUEST | flags, 1, 0) + content)
    found: list[bytes] = []
    while True:
        data = link.recv(_BUFFER)
        while data:
            length, answer, _, _, _ = _HEADER.unpack_from(data)
            if answer in {_DONE, _ERROR}:
                code = -_CODE.unpack_from(data, _HEADER.size)[0]
                if code and code not in _FINE:
                    raise OperationFailed(f"TCP connections cannot be ended: {os.strerror(code)}")
                return found
            found.append(data[_HEADER.size : length])
            data = data[(length + 3) & ~3 :]
