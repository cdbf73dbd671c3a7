"""rtnetlink requests for interfaces without a cable: bridges, VXLAN devices, VRFs, VLANs and bonds.

All are created down, with planned indexes, so that one can refer to another before that exists.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyroute2.netlink.rtnl import (
    RTM_DELNEIGH,
    RTM_DELRULE,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    RTM_NEWRULE,
    RTM_SETLINK,
)
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from lab.kernel.netlink.links import ONE_SEGMENT
from lab.kernel.netlink.rtnl import CREATE, encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Address

    from lab.kernel.netlink.rtnl import Attributes, NetlinkBatch

VXLAN_PORT: Final = 4789
"""UDP destination port of VXLAN (RFC 7348 section 5)."""
_LACP, _FAST, _BY_PORTS = 4, 1, 1
"""Bond options: mode 802.3ad, an LACPDU each second, the hash of addresses and ports (ip-link(8))."""
_LOOKS: Final = 50
"""Milliseconds between checks of a bond member's link state (miimon)."""
_TICKS: Final = 100
"""Units of a bridge's timers per second (USER_HZ)."""
_INHERIT: Final = 1
"""TOS of a tunnel: copied from the inner packet (ip-link(8))."""
_PVID_UNTAGGED: Final = 0x02 | 0x04
"""Untagged frames belong to this VLAN, and its frames leave untagged (<linux/if_bridge.h>)."""
_SELF: Final = 2
"""The request is for the bridge itself, not for the bridge that it is a port of."""
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_RTN_UNREACHABLE: Final = 7
_RTPROT_STATIC: Final = 4
_LAST: Final = 0xFFFFFFFF
_LOCAL_TABLE: Final = 255
_FR_ACT_TO_TBL: Final = 1
_NUD_PERMANENT: Final = 0x80
_NTF_SELF: Final = 0x02
_LOCAL_FIRST, _LOCAL_LATER = 0, 32765


@dataclass(frozen=True, slots=True)
class LogicalLink:
    """A planned interface: its name, its index, its MTU in bytes of IP packet, and its MAC if it is fixed."""

    name: str
    index: int
    mtu: int
    mac: str = ""
    master: int = 0
    """Index of its bridge or VRF; 0 for none."""


def _new(
    batch: NetlinkBatch, device: LogicalLink, kind: str, data: Attributes, more: Attributes | None = None
) -> None:
    message = ifinfmsg()
    message["index"] = device.index
    attributes: Attributes = [
        ("IFLA_IFNAME", device.name), ("IFLA_MTU", device.mtu), ("IFLA_GSO_MAX_SEGS", ONE_SEGMENT), *(more or []),
    ]  # fmt: skip
    if device.mac:
        attributes.append(("IFLA_ADDRESS", device.mac))
    if device.master:
        attributes.append(("IFLA_MASTER", device.master))
    about = [("IFLA_INFO_KIND", kind), *([("IFLA_INFO_DATA", {"attrs": data})] if data else [])]
    message["attrs"] = [*attributes, ("IFLA_LINKINFO", {"attrs": about})]
    batch.add(encode(message, RTM_NEWLINK, CREATE), f"{kind} {device.name}")


@dataclass(frozen=True, slots=True)
class SpanningTreeSettings:
    """A bridge's settings in a spanning tree: its priority, and its timers in seconds, used if it is the root."""

    priority: int
    hello: float
    max_age: float
    forward_delay: float
    ageing: float
    """Seconds after which its own table forgets a silent address."""


def add_bridge(batch: NetlinkBatch, device: LogicalLink, tree: SpanningTreeSettings | None = None) -> None:
    """Create a VLAN-aware bridge without snooping. Its ports are in no VLAN at first.

    In a ``tree`` the kernel's own 802.1D runs, because only the first namespace can have a daemon do that. The MTU is
    set a second time: only an MTU set on an existing bridge keeps it from following its ports.
    """
    data: Attributes = [
        ("IFLA_BR_VLAN_FILTERING", 1),
        ("IFLA_BR_VLAN_DEFAULT_PVID", 0),
        ("IFLA_BR_MCAST_SNOOPING", 0),
    ]
    if tree is not None:
        data += [
            ("IFLA_BR_HELLO_TIME", round(tree.hello * _TICKS)),
            ("IFLA_BR_MAX_AGE", round(tree.max_age * _TICKS)),
            ("IFLA_BR_FORWARD_DELAY", round(tree.forward_delay * _TICKS)),
            ("IFLA_BR_AGEING_TIME", round(tree.ageing * _TICKS)),
            ("IFLA_BR_PRIORITY", tree.priority),
        ]
    data.append(("IFLA_BR_STP_STATE", int(tree is not None)))
    _new(batch, device, "bridge", data)
    _change(batch, device.index, [("IFLA_MTU", device.mtu)], f"mtu of {device.name}")


def add_vxlan(
    batch: NetlinkBatch, device: LogicalLink, *, vni: int, local: IPv4Address, flooding: Attributes | None = None
) -> None:
    """Create a tunnel of one VNI with the source address ``local``. It learns no MACs: EVPN supplies them.

    The outer header has the DSCP of the inner packet, and no UDP checksum (RFC 7348 section 5). EVPN also supplies
    the flood list, unless ``flooding`` sets a multicast group instead.
    """
    data: Attributes = [
        ("IFLA_VXLAN_ID", vni),
        ("IFLA_VXLAN_LOCAL", str(local)),
        ("IFLA_VXLAN_PORT", VXLAN_PORT),
        ("IFLA_VXLAN_LEARNING", 0),
        ("IFLA_VXLAN_TOS", _INHERIT),
        ("IFLA_VXLAN_UDP_CSUM", 0),
    ]
    _new(batch, device, "vxlan", [*data, *(flooding or [])])
    port: Attributes = [("IFLA_BRPORT_LEARNING", 0), ("IFLA_BRPORT_NEIGH_SUPPRESS", 1)]
    _change_port(batch, device.index, port, f"bridge port {device.name}")


def set_cost(batch: NetlinkBatch, index: int, cost: int, name: str) -> None:
    """Set a bridge port's path cost, 1 to 65535 (IEEE 802.1D-1998 section 8.5.5.3)."""
    _change_port(batch, index, [("IFLA_BRPORT_COST", cost)], f"cost of {name}")


def _change_port(batch: NetlinkBatch, index: int, port: Attributes, what: str) -> None:
    slave = [("IFLA_INFO_SLAVE_KIND", "bridge"), ("IFLA_INFO_SLAVE_DATA", {"attrs": port})]
    _change(batch, index, [("IFLA_LINKINFO", {"attrs": slave})], what)


def add_dummy(batch: NetlinkBatch, device: LogicalLink) -> None:
    """Create a dummy interface, which drops all that it sends."""
    _new(batch, device, "dummy", [])


def add_vrf(batch: NetlinkBatch, device: LogicalLink, table: int) -> None:
    """Create a VRF with an unreachable default route, so that no packet falls through to the underlay's table."""
    _new(batch, device, "vrf", [("IFLA_VRF_TABLE", table)])
    for family in _FAMILIES:
        message = rtmsg()
        message["family"] = family
        message["table"] = 0  # RT_TABLE_UNSPEC: the attribute has the number, with more bits
        message["proto"] = _RTPROT_STATIC
        message["type"] = _RTN_UNREACHABLE
        message["attrs"] = [("RTA_PRIORITY", _LAST), ("RTA_TABLE", table)]
        batch.add(encode(message, RTM_NEWROUTE, CREATE), f"unreachable default of {device.name}")


def add_vlan(batch: NetlinkBatch, device: LogicalLink, *, parent: int, vlan: int) -> None:
    """Create the interface of one VLAN on the interface or bridge with the index ``parent``."""
    _new(batch, device, "vlan", [("IFLA_VLAN_ID", vlan)], [("IFLA_LINK", parent)])


def add_bond(batch: NetlinkBatch, device: LogicalLink, partner: str = "") -> None:
    """Create an LACP bond (IEEE 802.1AX) with fast LACPDUs that hashes flows over its members.

    It advertises the system ``partner``, if given, and otherwise its own.
    """
    data: Attributes = [
        ("IFLA_BOND_MODE", _LACP),
        ("IFLA_BOND_MIIMON", _LOOKS),
        ("IFLA_BOND_AD_LACP_RATE", _FAST),
        ("IFLA_BOND_XMIT_HASH_POLICY", _BY_PORTS),
    ]
    if partner:
        data.append(("IFLA_BOND_AD_ACTOR_SYSTEM", bytes.fromhex(partner.replace(":", ""))))
    _new(batch, device, "bond", data)


def enslave(batch: NetlinkBatch, index: int, master: int, name: str) -> None:
    """Make an interface a port of a bridge, or a member of a bond; a bond member must be down."""
    _change(batch, index, [("IFLA_MASTER", master)], f"{name} into its bridge or bond")


def join_vlan(batch: NetlinkBatch, index: int, vlan: int, *, untagged: bool = False, of_bridge: bool = False) -> None:
    """Put a port, or the bridge itself, into a VLAN."""
    info: dict[str, Any] = {"vid": vlan, "flags": _PVID_UNTAGGED if untagged else 0}
    message = ifinfmsg()
    message["family"] = socket.AF_BRIDGE
    message["index"] = index
    flags: Attributes = [("IFLA_BRIDGE_FLAGS", _SELF)] if of_bridge else []
    message["attrs"] = [("IFLA_AF_SPEC", {"attrs": [*flags, ("IFLA_BRIDGE_VLAN_INFO", info)]})]
    batch.add(encode(message, RTM_SETLINK), f"VLAN {vlan}")


def own_mac(batch: NetlinkBatch, bridge: int, vlan: int, mac: str) -> None:
    """Deliver frames of a VLAN to ``mac`` to the bridge itself, which would flood an unknown address."""
    batch.add(encode(_own(bridge, vlan, mac), RTM_NEWNEIGH, CREATE), f"MAC {mac} of VLAN {vlan}")


def _own(bridge: int, vlan: int, mac: str) -> ndmsg:
    message = ndmsg()
    message["family"] = socket.AF_BRIDGE
    message["ifindex"] = bridge
    message["state"] = _NUD_PERMANENT
    message["flags"] = _NTF_SELF
    message["attrs"] = [("NDA_LLADDR", mac), ("NDA_VLAN", vlan)]
    return message


def set_mac(batch: NetlinkBatch, index: int, mac: str, name: str) -> None:
    """Change the MAC of an interface."""
    _change(batch, index, [("IFLA_ADDRESS", mac)], f"MAC of {name}")


def disown_mac(batch: NetlinkBatch, bridge: int, vlan: int, mac: str) -> None:
    """Undo ``own_mac``."""
    batch.add(encode(_own(bridge, vlan, mac), RTM_DELNEIGH), f"MAC {mac} of VLAN {vlan} gone")


def ask_vrfs_first(batch: NetlinkBatch) -> None:
    """Look up VRFs before a namespace's own addresses, so that a tenant does not reach the switch's addresses."""
    for family in _FAMILIES:
        for kind, flags, priority in ((RTM_NEWRULE, CREATE, _LOCAL_LATER), (RTM_DELRULE, 0, _LOCAL_FIRST)):
            message = fibmsg()
            message["family"] = family
            message["table"] = _LOCAL_TABLE
            message["action"] = _FR_ACT_TO_TBL
            message["attrs"] = [("FRA_PRIORITY", priority), ("FRA_TABLE", _LOCAL_TABLE)]
            batch.add(encode(message, kind, flags), "rule of the local table")


def _change(batch: NetlinkBatch, index: int, attributes: Sequence[tuple[str, Any]], what: str) -> None:
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = list(attributes)
    batch.add(encode(message, RTM_NEWLINK), what)
