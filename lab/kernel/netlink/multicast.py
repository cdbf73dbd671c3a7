"""Tunnels that flood to a multicast group, and the reception of packets to that group.

Since Linux 6.17 a VXLAN device can send to its group by its namespace's multicast routes; before, only out of a fixed
interface. For reception, the routes lead to a dummy interface that is a member of the group. The kernel delivers a
copy of each packet sent out of it to the tunnels' socket.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from pyroute2.netlink.rtnl import RTM_DELROUTE, RTM_NEWADDR
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ifinfmsg.plugins import vxlan
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from lab.kernel.netlink.links import LOOPBACK_INDEX
from lab.kernel.netlink.rtnl import CHANGE, CREATE, encode

if TYPE_CHECKING:
    from ipaddress import IPv4Address

    from lab.kernel.netlink.rtnl import Attributes, NetlinkBatch

_TTL: Final = 64
"""TTL of packets to a group. The default of 1 would end them at the next switch."""
_MC_ROUTE: Final = 34
"""IFLA_VXLAN_MC_ROUTE (<linux/if_link.h>, Linux 6.17), which pyroute2 does not know."""
_IFA_F_MCAUTOJOIN: Final = 0x400
_LOCAL_TABLE: Final = 255
_RTN_LOCAL: Final = 2
_RTPROT_KERNEL: Final = 2
_SCOPE_HOST: Final = 254


class _Vxlan(vxlan.vxlan):  # type: ignore[misc]
    """pyroute2's attributes, padded up to the missing one: an attribute's index is its number."""

    nla_map = (
        *vxlan.vxlan.nla_map,
        *((f"IFLA_VXLAN_{number}", "uint8") for number in range(len(vxlan.vxlan.nla_map), _MC_ROUTE + 1)),
    )


ifinfmsg.ifinfo.data_map["vxlan"] = _Vxlan


def flooding_to(group: IPv4Address, *, routed: int = 1) -> Attributes:
    """Return the attributes by which a VXLAN device floods to ``group`` (RFC 7348 section 4.2).

    It sends out of the loopback: pimd expects a switch's own packets from there. Kernels with the attribute accept 0
    and 1 for ``routed``.
    """
    return [
        ("IFLA_VXLAN_GROUP", str(group)),
        ("IFLA_VXLAN_LINK", LOOPBACK_INDEX),
        ("IFLA_VXLAN_TTL", _TTL),
        (_Vxlan.nla_map[_MC_ROUTE][0], routed),
    ]


def take_in(batch: NetlinkBatch, index: int, group: IPv4Address) -> None:
    """Receive packets to ``group`` that are routed out of the dummy ``index``, which is up, exactly once.

    Group membership without a socket needs the group as an address. The kernel's local route for that address is
    deleted: with it each packet would arrive a second time, by the loopback.
    """
    address = ifaddrmsg()
    address["index"], address["family"], address["prefixlen"] = index, socket.AF_INET, group.max_prefixlen
    address["attrs"] = [("IFA_ADDRESS", str(group)), ("IFA_LOCAL", str(group)), ("IFA_FLAGS", _IFA_F_MCAUTOJOIN)]
    batch.add(encode(address, RTM_NEWADDR, CREATE), f"group {group}")
    route = rtmsg()
    route["family"], route["table"], route["type"] = socket.AF_INET, _LOCAL_TABLE, _RTN_LOCAL
    route["proto"], route["scope"], route["dst_len"] = _RTPROT_KERNEL, _SCOPE_HOST, group.max_prefixlen
    route["attrs"] = [("RTA_DST", str(group)), ("RTA_OIF", index)]
    batch.add(encode(route, RTM_DELROUTE, CHANGE), f"local route to {group}")
