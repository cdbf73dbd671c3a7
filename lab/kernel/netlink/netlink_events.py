"""Changes of a namespace's links, neighbours and routes, as the kernel reports them (rtnetlink(7), multicast)."""

from __future__ import annotations

import errno
import socket
from enum import IntFlag
from functools import partial
from typing import TYPE_CHECKING, Final

from lab.kernel.netlink.client import BUFFER, netlink_socket

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

_ROOM: Final = 1 << 20
"""Bytes of a listener's buffer: a switch that loses a spine changes hundreds of routes at once."""


class EventGroup(IntFlag):
    """The multicast groups of a listener: RTMGRP_* of <linux/rtnetlink.h>."""

    LINK = 0x1
    NEIGHBOUR = 0x4
    IPV4_MULTICAST_ROUTE = 0x20
    IPV4_ROUTE = 0x40
    IPV6_ROUTE = 0x400


RECORDED: Final = EventGroup.LINK | EventGroup.NEIGHBOUR | EventGroup.IPV4_ROUTE | EventGroup.IPV6_ROUTE
"""The groups that a recording contains for each node."""


def listener(namespace: Namespace, groups: EventGroup = RECORDED) -> socket.socket:
    """Return a non-blocking socket that receives the events of ``groups`` from now on.

    Raises OperationFailed if the namespace is gone.
    """
    return namespace.inside(partial(_listener, groups))


def take(link: socket.socket) -> tuple[list[bytes], bool]:
    """Return the pending messages, one element for each report of the kernel, and whether some were lost.

    Raises OSError if the socket can no longer be read.
    """
    found: list[bytes] = []
    lost = False
    while True:
        try:
            found.append(link.recv(BUFFER))
        except BlockingIOError:
            return found, lost
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            lost = True  # the kernel had more than the socket's buffer holds; the rest can still be read


def _listener(groups: EventGroup) -> socket.socket:
    link = netlink_socket()
    try:
        link.setblocking(False)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        link.bind((0, int(groups)))
    except OSError:
        link.close()
        raise
    return link
