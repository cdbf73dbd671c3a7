"""The state and counters of a namespace's interfaces, in one read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar

from lab.errors import OperationFailed
from lab.kernel.netlink.client import dump
from lab.kernel.netlink.nlmsg import attributes, text
from lab.kernel.netlink.tc_hooks import GETQDISC, TCMSG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.netlink.client import DumpMessage
    from lab.kernel.process.netns import Namespace

# From <linux/rtnetlink.h>, <linux/if_link.h>, <linux/gen_stats.h>.
GETLINK: Final = 18
IFINFOMSG: Final = struct.Struct("=BxHiII")
IFLA_IFNAME, IFLA_MTU, IFLA_OPERSTATE = 3, 4, 16
_GETADDR: Final = 22
_IFADDRMSG: Final = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFLA_STATS64, _IFLA_GSO_MAX_SEGS = 23, 40
_IFLA_MASTER, _IFLA_LINKINFO, _IFLA_INFO_SLAVE_KIND = 10, 18, 4
_STATS64: Final = struct.Struct("=8Q")
"""Packets, bytes, errors and drops, each received and sent: the beginning of struct rtnl_link_stats64."""
OPERATIONAL: Final = 6
"""IF_OPER_UP of RFC 2863."""
_LOWER_UP: Final = 0x10000
"""IFF_LOWER_UP: the interface is enabled and has a carrier. The operational state follows up to a second later."""
_TCA_KIND, _TCA_STATS2, _TCA_STATS_QUEUE = 1, 7, 3
_TC_H_ROOT: Final = 0xFFFFFFFF
_U32: Final = struct.Struct("=I")

_T = TypeVar("_T")
Interface: TypeAlias = IPv4Interface | IPv6Interface
"""An address with its prefix length."""


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """One interface: its state, its MTU, and its counters since creation (RFC 2863's ifTable)."""

    name: str
    up: bool
    mtu: int
    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int
    drops: int
    """Packets dropped in either direction, plus packets dropped by its root qdisc."""


def no_interface(node: str, name: str) -> OperationFailed:
    """Return the error for an interface that was removed from a node."""
    return OperationFailed(f"{node} has no interface {name} now", "rocelab status shows what is gone")


class _ByName(dict[str, _T]):
    """Properties of a node's interfaces, by name. A missing interface is an error that names it and the node."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._namespace = namespace

    def __missing__(self, name: str) -> NoReturn:
        raise no_interface(self._namespace.name, name)


def interfaces(namespace: Namespace) -> dict[str, InterfaceState]:
    """Return all interfaces except the loopback, by name. OperationFailed for a subscript that is none."""
    found = _ByName[InterfaceState](namespace)
    for name, link, queue in _links(namespace):
        if name == "lo":
            continue
        rx_packets, tx_packets, rx_bytes, tx_bytes, _, _, *drops = _STATS64.unpack_from(
            link.attributes[_IFLA_STATS64]
        )
        found[name] = InterfaceState(
            name=name,
            up=link.attributes[IFLA_OPERSTATE][0] == OPERATIONAL,
            mtu=_U32.unpack(link.attributes[IFLA_MTU])[0],
            rx_bytes=rx_bytes,
            rx_packets=rx_packets,
            tx_bytes=tx_bytes,
            tx_packets=tx_packets,
            drops=sum(drops) + (_drops(queue) if queue else 0),
        )
    return found


def addresses(namespace: Namespace) -> dict[str, frozenset[Interface]]:
    """Return the addresses of each interface by its name, the loopback included."""

    def read() -> tuple[list[DumpMessage], list[DumpMessage]]:
        return list(dump(GETLINK, IFINFOMSG)), list(dump(_GETADDR, _IFADDRMSG))

    links, messages = namespace.inside(read)
    found: dict[int, set[Interface]] = {}
    for message in messages:
        found.setdefault(_IFADDRMSG.unpack(message.fixed)[4], set()).add(_address(message))
    names = {int(IFINFOMSG.unpack(link.fixed)[2]): text(link.attributes[IFLA_IFNAME]) for link in links}
    return {name: frozenset(found.get(index, ())) for index, name in names.items()}


def _address(message: DumpMessage) -> Interface:
    prefix = _IFADDRMSG.unpack(message.fixed)[1]
    octets = message.attributes.get(_IFA_LOCAL) or message.attributes[_IFA_ADDRESS]  # IPv6 has no local address
    return ip_interface((octets, prefix))


def indices(namespace: Namespace) -> dict[str, int]:
    """Return the index of each interface except the loopback, by name; OperationFailed for one that is none."""
    links = namespace.inside(lambda: dump(GETLINK, IFINFOMSG))
    found = _ByName[int](namespace)
    found |= {text(link.attributes[IFLA_IFNAME]): int(IFINFOMSG.unpack(link.fixed)[2]) for link in links}
    found.pop("lo", None)
    return found


def with_carrier(namespace: Namespace) -> set[str]:
    """Return the interfaces that are enabled and have a carrier, without the loopback."""
    links = namespace.inside(lambda: dump(GETLINK, IFINFOMSG))
    connected = [link for link in links if IFINFOMSG.unpack(link.fixed)[3] & _LOWER_UP]
    return {text(link.attributes[IFLA_IFNAME]) for link in connected} - {"lo"}


def segment_limits() -> dict[str, int]:
    """Return the maximum number of segments of one TCP packet in each queue of the calling thread's namespace."""
    return {
        text(link.attributes[IFLA_IFNAME]): int(_U32.unpack(link.attributes[_IFLA_GSO_MAX_SEGS])[0])
        for link in dump(GETLINK, IFINFOMSG)
    }


def bridge_or_itself(interface: str) -> str:
    """Return the bridge that an interface of the calling thread's namespace is a port of; else the interface.

    The IP stack receives packets of a port by its bridge.
    """
    links = dump(GETLINK, IFINFOMSG)
    names = {int(IFINFOMSG.unpack(link.fixed)[2]): text(link.attributes[IFLA_IFNAME]) for link in links}
    for link in (each for each in links if text(each.attributes[IFLA_IFNAME]) == interface):
        kind = attributes(link.attributes.get(_IFLA_LINKINFO, b"")).get(_IFLA_INFO_SLAVE_KIND, b"")
        if text(kind) == "bridge" and _IFLA_MASTER in link.attributes:
            return names.get(_U32.unpack(link.attributes[_IFLA_MASTER])[0], interface)
    return interface


def root_qdiscs(namespace: Namespace) -> dict[str, tuple[str, str]]:
    """Return the kind and handle (``rl_t``, ``3:``) of each interface's root qdisc."""
    return {
        name: (text(queue.attributes[_TCA_KIND]), f"{TCMSG.unpack(queue.fixed)[2] >> 16:x}:")
        for name, _, queue in _links(namespace)
        if queue
    }


def _links(namespace: Namespace) -> Iterator[tuple[str, DumpMessage, DumpMessage | None]]:
    """Yield each interface's name, its message, and its root qdisc's message or None."""
    links, queues = namespace.inside(lambda: (dump(GETLINK, IFINFOMSG), dump(GETQDISC, TCMSG)))
    roots = dict(_roots(queues))
    for link in links:
        yield text(link.attributes[IFLA_IFNAME]), link, roots.get(IFINFOMSG.unpack(link.fixed)[2])


def _roots(queues: list[DumpMessage]) -> Iterator[tuple[int, DumpMessage]]:
    """Yield each interface's index and root qdisc."""
    for queue in queues:
        _, index, _, parent, _ = TCMSG.unpack(queue.fixed)
        if parent == _TC_H_ROOT:
            yield index, queue


def _drops(queue: DumpMessage) -> int:
    """Return the packets that a qdisc dropped; the interface's counters exclude them (struct gnet_stats_queue)."""
    _, _, drops = struct.unpack_from("=III", attributes(queue.attributes[_TCA_STATS2])[_TCA_STATS_QUEUE])
    return int(drops)
