"""What the kernel tells of a namespace's links, neighbours and routes, as it happens (rtnetlink(7), multicast)."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

_GROUPS: Final = 0x1 | 0x4 | 0x40 | 0x400
"""RTMGRP_LINK, RTMGRP_NEIGH, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE."""
_BUFFER: Final = 1 << 16
_ROOM: Final = 1 << 20
"""Bytes that the kernel keeps for us: a switch that loses a spine changes hundreds of routes at once."""


def listener(namespace: Namespace) -> socket.socket:
    """A socket that hears all of it from now on; OperationFailed when the namespace is gone."""
    heard = namespace.inside(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
    heard.setblocking(False)
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
    heard.bind((0, _GROUPS))
    return heard


def take(heard: socket.socket) -> tuple[list[bytes], bool]:
    """What came, one piece for each time that the kernel spoke, and whether some of it was lost.

    OSError when nothing can be read from the socket any more.
    """
    found: list[bytes] = []
    lost = False
    while True:
        try:
            found.append(heard.recv(_BUFFER))
        except BlockingIOError:
            return found, lost
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            lost = True  # the kernel had more than the socket's buffer holds; the rest is still there to be read
