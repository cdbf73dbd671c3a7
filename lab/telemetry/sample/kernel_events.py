"""Decode rtnetlink messages as events: links, neighbours, routes. Messages that change nothing are omitted."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from lab.kernel.netlink.nlmsg import attributes, messages, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.kernel.netlink.nlmsg import Attributes

# From <linux/rtnetlink.h>, <linux/if_link.h>, <linux/neighbour.h>.
_LINKS: Final = {16: False, 17: True}
"""RTM_NEWLINK and RTM_DELLINK, mapped to whether the link is removed."""
_ROUTES: Final = {24: False, 25: True}
_NEIGHBOURS: Final = {28: False, 29: True}
_IFINFOMSG: Final = struct.Struct("=BxHiII")
_NDMSG: Final = struct.Struct("=BxxxiHBB")
_RTMSG: Final = struct.Struct("=BBBBBBBBI")
_NEXT_HOP: Final = struct.Struct("=HBBi")
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_OPERSTATE, _IFLA_LINKINFO = 1, 3, 4, 10, 16, 18
_IFLA_INFO_SLAVE_KIND: Final = 4
_OF_VRF: Final = "vrf"
_NDA_DST, _NDA_LLADDR = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 5, 6, 9, 15
_UP: Final = 6
_IFF_UP: Final = 1
_UNICAST: Final = 1
_TYPES: Final = {1: "unicast", 6: "blackhole", 7: "unreachable", 8: "prohibit", 9: "throw"}
_PROTOCOLS: Final = {2: "kernel", 3: "boot", 4: "static", 186: "bgp", 187: "isis", 188: "ospf", 196: "static"}
_STATES: Final = {
    0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay", 0x10: "probe", 0x20: "failed",
    0x40: "noarp", 0x80: "permanent",
}  # fmt: skip
_LEARNT: Final = frozenset({186, 187, 188})
"""Protocols of routing daemons, which have one route to a prefix: BGP, IS-IS and OSPF."""
_LOCAL_TABLE: Final = 255


class KernelNews:
    """Converts rtnetlink messages to events; keeps each node's interfaces and the last state of each object."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """``nodes`` have a name, and ``interfaces``: names by index."""
        self._names = [str(node["name"]) for node in nodes]
        self._interfaces = [{int(index): str(name) for index, name in node["interfaces"].items()} for node in nodes]
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def events(self, ns: int, number: int, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the events of a message of node ``number`` at ``ns``; none if the message is damaged."""
        for message in messages(data):
            try:
                told = self._told(number, message.kind, message.content)
            except (struct.error, ValueError, KeyError, IndexError):
                continue
            if told is not None:
                yield {"ns": ns, "source": "kernel", "kind": told.pop("kind"), "node": self._names[number], **told}

    def _told(self, number: int, kind: int, content: bytes) -> dict[str, Any] | None:
        if kind in _LINKS:
            return self._link(number, content, gone=_LINKS[kind])
        if kind in _NEIGHBOURS:
            return self._neighbour(number, content, gone=_NEIGHBOURS[kind])
        if kind in _ROUTES:
            return self._route(number, content, gone=_ROUTES[kind])
        return None

    def _news_of(self, kind: str, number: int, names: Sequence[str], state: dict[str, Any]) -> dict[str, Any] | None:
        """Return the state as an event; None if it equals the object's last one."""
        key = (kind, self._names[number], *names)
        if self._known.get(key) == state:
            return None
        self._known[key] = state
        return {"kind": kind, **state}

    def _link(self, number: int, content: bytes, *, gone: bool) -> dict[str, Any] | None:
        family, _, index, flags, _ = _IFINFOMSG.unpack_from(content)
        found = attributes(content[_IFINFOMSG.size :])
        if family != socket.AF_UNSPEC or _IFLA_IFNAME not in found:
            return None
        name = text(found[_IFLA_IFNAME])
        self._interfaces[number][index] = name
        state = {
            "interface": name,
            "admin_up": bool(flags & _IFF_UP) and not gone,
            "up": found[_IFLA_OPERSTATE][0] == _UP and not gone,
            "mtu": struct.unpack("=I", found[_IFLA_MTU])[0],
            "mac": found.get(_IFLA_ADDRESS, b"").hex(":"),
            "master": "" if gone else self._master(number, found),
            "gone": gone,
        }
        return self._news_of("link", number, [name], state)

    def _master(self, number: int, found: Attributes) -> str:
        """Return the bridge or bond that an interface is a member of; "" for none. A VRF only has its routes."""
        kinds = attributes(found.get(_IFLA_LINKINFO, b""))
        if _IFLA_MASTER not in found or text(kinds.get(_IFLA_INFO_SLAVE_KIND, b"")) == _OF_VRF:
            return ""
        return self._interface(number, struct.unpack("=I", found[_IFLA_MASTER])[0])

    def _neighbour(self, number: int, content: bytes, *, gone: bool) -> dict[str, Any] | None:
        family, index, flags, _, _ = _NDMSG.unpack_from(content)
        found = attributes(content[_NDMSG.size :])
        if family not in {socket.AF_INET, socket.AF_INET6} or _NDA_DST not in found:
            return None
        interface, address = self._interface(number, index), str(ip_address(found[_NDA_DST]))
        mac = found.get(_NDA_LLADDR, b"").hex(":")
        state = {
            "interface": interface, "address": address, "mac": mac,
            "state": "gone" if gone else _STATES.get(flags, "none"),
        }  # fmt: skip
        return self._news_of("neighbour", number, [interface, address], state)

    def _route(self, number: int, content: bytes, *, gone: bool) -> dict[str, Any] | None:
        family, length, _, _, table, protocol, _, kind, _ = _RTMSG.unpack_from(content)
        found = attributes(content[_RTMSG.size :])
        if table == _LOCAL_TABLE or kind not in _TYPES:
            return None
        if _RTA_TABLE in found:  # The header has 8 bits for the table, the attribute 32.
            (table,) = struct.unpack("=I", found[_RTA_TABLE])
        wide = 4 if family == socket.AF_INET else 16
        prefix = f"{ip_address(found.get(_RTA_DST, bytes(wide)))}/{length}"
        hops = [] if gone else sorted(self._interface(number, index) for index in _outgoing(found))
        if kind == _UNICAST and prefix.startswith(("fe80:", "ff00:")):
            return None
        state = {
            "prefix": prefix, "interfaces": hops, "type": _TYPES[kind],
            "protocol": _PROTOCOLS.get(protocol, str(protocol)), "table": table, "gone": gone,
        }  # fmt: skip
        if _RTA_GATEWAY in found:
            state["gateway"] = str(ip_address(found[_RTA_GATEWAY]))
        metric = struct.unpack("=I", found[_RTA_PRIORITY])[0] if _RTA_PRIORITY in found else 0
        # A prefix may have several routes, for example on a host with several NICs: each is an object of its own.
        several = {"metric": metric} if protocol not in _LEARNT else {}
        return self._news_of("route", number, [prefix, str(table), *map(str, several.values())], state | several)

    def _interface(self, number: int, index: int) -> str:
        return self._interfaces[number].get(index, f"if{index}")


def _outgoing(found: Attributes) -> Iterator[int]:
    """Yield the interface indices of all next hops."""
    if _RTA_OIF in found:
        yield struct.unpack("=i", found[_RTA_OIF])[0]
    data = found.get(_RTA_MULTIPATH, b"")
    while len(data) >= _NEXT_HOP.size:
        length, _, _, index = _NEXT_HOP.unpack_from(data)
        yield index
        data = data[max(_NEXT_HOP.size, (length + 3) & ~3) :]
