"""Tunnels that flood to a multicast group, and where what comes from the group is taken in.

A VXLAN device sends to its group by the multicast routes of its namespace where it is told to (Linux 6.17); before,
it could be told an interface only. On the way in the routes lead to a dummy, which leads nowhere and is in the group:
the kernel hands a copy of what leaves by it to the socket of the tunnels.
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
"""Of packets to a group, which otherwise have 1 and end at the next switch."""
_MC_ROUTE: Final = 34
"""IFLA_VXLAN_MC_ROUTE (<linux/if_link.h>, Linux 6.17), which pyroute2 does not know."""
_IFA_F_MCAUTOJOIN: Final = 0x400
_LOCAL_TABLE: Final = 255
_RTN_LOCAL: Final = 2
_RTPROT_KERNEL: Final = 2
_SCOPE_HOST: Final = 254


class _Vxlan(vxlan.vxlan):  # type: ignore[misc]
    """pyroute2's attributes, and those up to the one that it does not know: an attribute's number is its place."""

    nla_map = (
        *vxlan.vxlan.nla_map,
        *((f"IFLA_VXLAN_{number}", "uint8") for number in range(len(vxlan.vxlan.nla_map), _MC_ROUTE + 1)),
    )


ifinfmsg.ifinfo.data_map["vxlan"] = _Vxlan


def flooding_to(group: IPv4Address, *, routed: int = 1) -> Attributes:
    """What a VXLAN device is told, besides what any is, to flood to ``group`` (RFC 7348 section 4.2).

    It sends out of the loopback, which is where pimd takes what a switch itself sends to come from. Of ``routed``
    kernels that know it take 0 and 1.
    """
    return [
        ("IFLA_VXLAN_GROUP", str(group)),
        ("IFLA_VXLAN_LINK", LOOPBACK_INDEX),
        ("IFLA_VXLAN_TTL", _TTL),
        (_Vxlan.nla_map[_MC_ROUTE][0], routed),
    ]


def take_in(batch: NetlinkBatch, index: int, group: IPv4Address) -> None:
    """Have packets that are routed out of the dummy ``index``, which is up, to ``group`` come in by it, once.

    To be in a group without a socket is to have it for an address. The local route that the kernel makes of any
    address goes: by it each packet would come in by the loopback a second time.
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
