"""rtnetlink requests for veth pairs, ifbs, addresses, routes and shapers, collected in a ``NetlinkBatch``."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final, TypeAlias

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import (
    RTM_DELLINK,
    RTM_DELQDISC,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWLINKPROP,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWRULE,
)
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

from lab.kernel.netlink.rtnl import CHANGE, CREATE, REPLACE, Attributes, NetlinkBatch, encode
from lab.model.shaping import delay_limit, shaper_burst, shaper_limit
from lab.units import WIRE_OVERHEAD

Address: TypeAlias = IPv4Address | IPv6Address
Interface: TypeAlias = IPv4Interface | IPv6Interface

LOOPBACK_INDEX: Final = 1
MAIN_TABLE: Final = 254
_RT_TABLE_UNSPEC: Final = 0

ONE_SEGMENT: Final = 1
"""TCP hands a queue one packet for several segments, even with offloads off. The kernel segments it after the queue.
With this limit, each packet in a queue is a frame, as on a wire."""

_IFF_UP: Final = 1
_RTPROT_STATIC: Final = 4
_RTN_UNICAST: Final = 1
_FR_ACT_TO_TBL: Final = 1
_IFA_F_NODAD: Final = 0x02
_SHAPER_PLACE: Final = (0xFFFFFFFF, 0x10000)
_DELAY_PLACE: Final = (0x10001, 0x20000)
"""Parent and handle: the shaper 1: at the root, the delay 2: below its class 1:1."""
_PSCHED_TICK: Final = 64e-9
_LINKLAYER_ETHERNET: Final = 1


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a planned veth pair: namespace (open descriptor), name, index in it, MAC, MTU in bytes."""

    namespace: int
    name: str
    index: int
    mac: str
    mtu: int


def _family(address: Address) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _end_attributes(end: VethEnd) -> Attributes:
    return [
        ("IFLA_IFNAME", end.name),
        ("IFLA_MTU", end.mtu),
        ("IFLA_ADDRESS", end.mac),
        ("IFLA_NET_NS_FD", end.namespace),
        ("IFLA_NUM_TX_QUEUES", 1),
        ("IFLA_NUM_RX_QUEUES", 1),
        ("IFLA_GSO_MAX_SEGS", ONE_SEGMENT),
    ]


def add_veth(batch: NetlinkBatch, a: VethEnd, b: VethEnd) -> None:
    """Create a veth pair, both ends down, directly in their namespaces and with their final names."""
    peer = ifinfmsg()
    peer["index"] = b.index
    peer["attrs"] = _end_attributes(b)
    message = ifinfmsg()
    message["index"] = a.index
    data = {"attrs": [("VETH_INFO_PEER", peer)]}
    message["attrs"] = [
        *_end_attributes(a),
        ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", data)]}),
    ]
    batch.add(encode(message, RTM_NEWLINK, CREATE), f"veth {a.name} to {b.name}")


def add_ifb(batch: NetlinkBatch, index: int, name: str) -> None:
    """Create an ifb, still down: an interface whose root qdisc queues the packets redirected to it."""
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [
        ("IFLA_IFNAME", name),
        ("IFLA_NUM_TX_QUEUES", 1),
        ("IFLA_NUM_RX_QUEUES", 1),
        ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "ifb")]}),
    ]
    batch.add(encode(message, RTM_NEWLINK, CREATE), f"ifb {name}")


def delete(batch: NetlinkBatch, index: int, name: str) -> None:
    """Delete an interface."""
    batch.add_for(index, _gone(), f"{name} gone")


@cache
def _gone() -> bytes:
    return encode(ifinfmsg(), RTM_DELLINK)


def set_up(batch: NetlinkBatch, index: int, name: str) -> None:
    """Bring an interface up."""
    batch.add_for(index, _up(), f"{name} up")


@cache
def _up() -> bytes:
    message = ifinfmsg()
    message["flags"] = message["change"] = _IFF_UP
    return encode(message, RTM_NEWLINK)


def limit_segments(batch: NetlinkBatch, index: int, segments: int) -> None:
    """Set the maximum number of segments that one packet of TCP may have in the interface's queue, 1 to 65,535."""
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [("IFLA_GSO_MAX_SEGS", segments)]
    batch.add(encode(message, RTM_NEWLINK), f"segments of interface {index}")


def move(batch: NetlinkBatch, index: int, namespace: int, *, name: str, new_index: int) -> None:
    """Move an interface to another namespace, an open descriptor, under a name and index that are free there.

    The kernel shuts it, and removes its addresses, routes, qdiscs and filters.
    """
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [("IFLA_NET_NS_FD", namespace), ("IFLA_IFNAME", name), ("IFLA_NEW_IFINDEX", new_index)]
    batch.add(encode(message, RTM_NEWLINK), f"{name} moved")


def add_altname(batch: NetlinkBatch, index: int, altname: str) -> None:
    """Add an alternative, longer name to an interface (up to 127 characters)."""
    message = ifinfmsg()
    message["index"] = index
    message["attrs"] = [("IFLA_PROP_LIST", {"attrs": [("IFLA_ALT_IFNAME", altname)]})]
    batch.add(encode(message, RTM_NEWLINKPROP, CREATE), f"altname {altname}")


def add_address(batch: NetlinkBatch, index: int, interface: Interface) -> None:
    """Add an address to an interface; usable at once, without duplicate address detection."""
    message = ifaddrmsg()
    message["index"] = index
    message["family"] = _family(interface.ip)
    message["prefixlen"] = interface.network.prefixlen
    message["attrs"] = [("IFA_ADDRESS", str(interface.ip)), ("IFA_LOCAL", str(interface.ip))]
    if interface.version == 6:
        message["flags"] = _IFA_F_NODAD
    batch.add(encode(message, RTM_NEWADDR, CREATE), f"address {interface}")


def add_default_route(
    batch: NetlinkBatch, gateway: Address, index: int, *, table: int = MAIN_TABLE, metric: int = 0
) -> None:
    """Add a default route with one gateway. The lowest ``metric`` of a table wins."""
    message = rtmsg()
    message["family"] = _family(gateway)
    message["table"] = _short(table)
    message["proto"] = _RTPROT_STATIC
    message["type"] = _RTN_UNICAST
    where = [("RTA_GATEWAY", str(gateway)), ("RTA_OIF", index)]
    message["attrs"] = [*where, ("RTA_PRIORITY", metric), ("RTA_TABLE", table)]
    batch.add(encode(message, RTM_NEWROUTE, CREATE), f"default route via {gateway}")


def add_source_rule(batch: NetlinkBatch, source: Address, table: int) -> None:
    """Look up packets from ``source`` in ``table`` first, so that no NIC's traffic uses another NIC's gateway."""
    message = fibmsg()
    message["family"] = _family(source)
    message["src_len"] = source.max_prefixlen
    message["table"] = _short(table)
    message["action"] = _FR_ACT_TO_TBL
    message["attrs"] = [("FRA_SRC", str(source)), ("FRA_PRIORITY", table), ("FRA_TABLE", table)]
    batch.add(encode(message, RTM_NEWRULE, CREATE), f"rule from {source}")


def _short(table: int) -> int:
    """Return the header's 8-bit table number; an attribute has the full number (rtnetlink(7))."""
    return table if table < 2**8 else _RT_TABLE_UNSPEC


class _TokenBucketOptions(nla):  # type: ignore[misc]
    """TCA_OPTIONS of tbf without the rate table. Kernels since 3.8 compute it; pyroute2 takes 0.3 ms for it."""

    nla_map = (("TCA_TBF_UNSPEC", "none"), ("TCA_TBF_PARMS", "tbf_parms"))

    class tbf_parms(nla):  # type: ignore[misc]  # noqa: N801 - pyroute2 finds it by this name
        """struct tc_tbf_qopt of <linux/pkt_sched.h>."""

        fields = sched_tbf.options.tbf_parms.fields


class _TokenBucket(tcmsg):  # type: ignore[misc]
    """A tc message for tbf."""

    @staticmethod
    def get_options(*_: object, **__: object) -> type[nla]:
        """Return the class of TCA_OPTIONS."""
        return _TokenBucketOptions


def add_shaper(batch: NetlinkBatch, index: int, *, rate: int, mtu: int) -> None:
    """Limit an interface to ``rate`` bit/s on the wire, including preamble and gap (tc-tbf(8))."""
    batch.add_for(index, _shaper(rate, mtu, CREATE), "qdisc tbf")


@cache
def _shaper(rate: int, mtu: int, flags: int) -> bytes:
    parameters = {
        "rate": rate // 8,
        "rate_overhead": WIRE_OVERHEAD,
        "rate___reserved": _LINKLAYER_ETHERNET,
        "limit": shaper_limit(rate, mtu),
        "buffer": round(shaper_burst(rate, mtu) / _PSCHED_TICK),
    }
    message = _TokenBucket()
    message["attrs"] = [("TCA_KIND", "tbf"), ("TCA_OPTIONS", {"attrs": [("TCA_TBF_PARMS", parameters)]})]
    return _qdisc(message, _SHAPER_PLACE, flags)


def add_delay(batch: NetlinkBatch, index: int, *, delay: float, rate: int, mtu: int) -> None:
    """Delay each packet of a shaped interface by ``delay`` seconds (tc-netem(8))."""
    batch.add_for(index, _delay(delay, rate, mtu, CREATE), "qdisc netem")


def replace_delay(batch: NetlinkBatch, index: int, *, delay: float, rate: int, mtu: int) -> None:
    """Set the delay as ``add_delay`` does, whether or not the interface has one."""
    batch.add_for(index, _delay(delay, rate, mtu, REPLACE), "qdisc netem")


def remove_delay(batch: NetlinkBatch, index: int, *, rate: int, mtu: int) -> None:
    """Remove the delay of a shaped interface, which is then as ``add_shaper`` left it.

    A tbf without its child passes nothing. Setting its limit again makes it create its default child.
    """
    batch.add_for(index, _no_delay(), "qdisc netem")
    batch.add_for(index, _shaper(rate, mtu, CHANGE), "qdisc tbf")


@cache
def _delay(delay: float, rate: int, mtu: int, flags: int) -> bytes:
    message = tcmsg()
    options = {"delay": round(delay / _PSCHED_TICK), "limit": delay_limit(delay, rate, mtu), "attrs": []}
    message["attrs"] = [("TCA_KIND", "netem"), ("TCA_OPTIONS", options)]
    return _qdisc(message, _DELAY_PLACE, flags)


@cache
def _no_delay() -> bytes:
    message = tcmsg()
    message["parent"], message["handle"] = _DELAY_PLACE
    return encode(message, RTM_DELQDISC)


def _qdisc(message: tcmsg, place: tuple[int, int], flags: int) -> bytes:
    message["parent"], message["handle"] = place
    return encode(message, RTM_NEWQDISC, flags)
