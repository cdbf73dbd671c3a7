"""The counters of all interfaces of a namespace, read often: one request over a socket that stays open."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.kernel.netlink.nlmsg import BUFFER, DONE, ERROR, HEADER, messages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.kernel.process.netns import Namespace

# Of <linux/rtnetlink.h> and <linux/if_link.h>.
_GETSTATS: Final = 94
_STATS_MSG: Final = struct.Struct("=BBHII")  # if_stats_msg: family, padding, index, filter
_REQUEST_DUMP: Final = 0x0001 | 0x0300
_LINK_64: Final = 1
"""IFLA_STATS_LINK_64: struct rtnl_link_stats64."""
_ATTRIBUTE: Final = struct.Struct("=HH")
FIELDS: Final = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
)  # fmt: skip
"""What begins struct rtnl_link_stats64, in the names of ``ip -s link``."""


class LinkStats:
    """Asks one namespace; an entry is the index of an interface and its ``FIELDS``."""

    def __init__(self, namespace: Namespace) -> None:
        """OperationFailed when the namespace is gone."""
        self.socket = namespace.inside(_netlink)
        length = HEADER.size + _STATS_MSG.size
        self._request = HEADER.pack(length, _GETSTATS, _REQUEST_DUMP, 1, 0) + _STATS_MSG.pack(0, 0, 0, 0, _LINK_64)

    def read(self) -> dict[int, NDArray[np.uint64]]:
        """The counters of each interface, by its index; OSError when the kernel refuses."""
        self.socket.send(self._request)
        found: dict[int, NDArray[np.uint64]] = {}
        while True:
            data = self.socket.recv(BUFFER)
            at = 0
            while at + HEADER.size <= len(data):
                length, kind, *_ = HEADER.unpack_from(data, at)
                if kind in {DONE, ERROR}:
                    if refused := next(messages(data[at:])).refused:
                        raise OSError(refused, os.strerror(refused))
                    return found
                _, _, _, index, _ = _STATS_MSG.unpack_from(data, at + HEADER.size)
                begins = _stats_at(data, at + HEADER.size + _STATS_MSG.size, at + length)
                if begins:
                    found[index] = np.frombuffer(data, np.uint64, len(FIELDS), begins)
                at += (length + 3) & ~3

    def close(self) -> None:
        """Ask no more."""
        self.socket.close()


def _stats_at(data: bytes, at: int, end: int) -> int:
    """Where the counters begin: behind their attribute's head, before which there may be padding; 0 for nowhere."""
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _LINK_64:
            return at + _ATTRIBUTE.size
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return 0


def _netlink() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
