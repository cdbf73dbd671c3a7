"""The counters or states of all interfaces of a namespace, for frequent reads: one request over an open socket."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.kernel.netlink.client import NetlinkClient, netlink_socket
from lab.kernel.netlink.interfaces import GETLINK, IFINFOMSG, IFLA_IFNAME, IFLA_MTU, IFLA_OPERSTATE, OPERATIONAL
from lab.kernel.netlink.nlmsg import attributes, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.kernel.process.netns import Namespace

# From <linux/rtnetlink.h> and <linux/if_link.h>.
_GETSTATS: Final = 94
_STATS_MSG: Final = struct.Struct("=BBHII")  # if_stats_msg: family, padding, index, filter
_LINK_64: Final = 1
"""IFLA_STATS_LINK_64: struct rtnl_link_stats64."""
_REQUEST: Final = _STATS_MSG.pack(0, 0, 0, 0, _LINK_64)
FIELDS: Final = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
)  # fmt: skip
"""The first fields of struct rtnl_link_stats64, with the names of ``ip -s link``."""
_IFLA_ADDRESS, _IFLA_EXT_MASK = 1, 29
_ATTRIBUTE: Final = struct.Struct("=HHI")  # nlattr with a u32
_SKIP_STATS: Final = 8
"""RTEXT_FILTER_SKIP_STATS: without counters, which make up most of an answer."""
_STATES_REQUEST: Final = bytes(IFINFOMSG.size) + _ATTRIBUTE.pack(_ATTRIBUTE.size, _IFLA_EXT_MASK, _SKIP_STATS)
_U32: Final = struct.Struct("=I")


class LinkStats:
    """Reads the counters of one namespace: ``FIELDS`` of each interface, by interface index."""

    def __init__(self, namespace: Namespace) -> None:
        """Open the socket in the namespace. Raises OperationFailed if the namespace is gone."""
        self._client = NetlinkClient(namespace.inside(netlink_socket))
        self.socket = self._client.socket

    def read(self) -> dict[int, NDArray[np.uint64]]:
        """Return the counters of each interface, by index. Raises OSError if the kernel refuses."""
        found = {}
        for content in self._client.dump(_GETSTATS, _REQUEST):
            counters = attributes(content[_STATS_MSG.size :]).get(_LINK_64)
            if counters is not None:
                found[_STATS_MSG.unpack_from(content)[3]] = np.frombuffer(counters, np.uint64, len(FIELDS))
        return found

    def close(self) -> None:
        """Close the socket."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class LinkState:
    """An interface as ``ip link`` shows it: whether its operational state is up (RFC 2863), MTU in bytes, and MAC."""

    up: bool
    mtu: int
    mac: str = ""


class LinkStates:
    """Reads the states of one namespace's interfaces, by name."""

    def __init__(self, namespace: Namespace) -> None:
        """Open the socket in the namespace. Raises OperationFailed if the namespace is gone."""
        self._client = NetlinkClient(namespace.inside(netlink_socket))

    def read(self) -> dict[str, LinkState]:
        """Return the state of each interface. Raises OSError if the kernel refuses."""
        found = {}
        for content in self._client.dump(GETLINK, _STATES_REQUEST):
            link = attributes(content[IFINFOMSG.size :])
            up = link[IFLA_OPERSTATE][0] == OPERATIONAL
            mac = link.get(_IFLA_ADDRESS, b"").hex(":")
            found[text(link[IFLA_IFNAME])] = LinkState(up, _U32.unpack(link[IFLA_MTU])[0], mac)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._client.close()
