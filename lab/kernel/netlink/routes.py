"""A namespace's forwarding tables, and notification of their changes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.kernel.netlink.client import NetlinkClient, dump, netlink_socket
from lab.kernel.netlink.netlink_events import EventGroup, listener, take
from lab.kernel.netlink.nlmsg import attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from lab.kernel.netlink.nlmsg import Attributes
    from lab.kernel.process.netns import Namespace

ANYBODY: Final = "0.0.0.0"  # noqa: S104 -- no listening address: the source of a shared tree
"""The source of a (*, G) route."""
MULTICAST: Final = Path("/proc/thread-self/net/ip_mr_vif")
"""The multicast interfaces of the calling thread's namespace: a header line, then one line each."""
_ROUTES: Final = EventGroup.IPV4_MULTICAST_ROUTE | EventGroup.IPV4_ROUTE | EventGroup.IPV6_ROUTE
# From <linux/rtnetlink.h>.
_GETROUTE: Final = 26
_RTMSG: Final = struct.Struct("=BBBBBBBBI")
_NEXT_HOP: Final = struct.Struct("=HBBi")
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 5, 6, 9, 15
_UNICAST: Final = 1
_REFUSING: Final = frozenset({6, 7, 8})
"""RTN_BLACKHOLE, RTN_UNREACHABLE and RTN_PROHIBIT."""
_MAIN_TABLE: Final = 254
_RTM_F_CLONED: Final = 0x200
_U32: Final = struct.Struct("=I")
_I32: Final = struct.Struct("=i")
_FIB_TYPES: Final = frozenset({_UNICAST, *_REFUSING, 9})
"""Types of routes that forward or refuse packets; 9 is RTN_THROW."""


def routes(namespace: Namespace, protocol: str = "bgp") -> dict[str, frozenset[str]]:
    """Return the next-hop interfaces of each prefix that ``protocol`` installed in the kernel."""
    found: dict[str, frozenset[str]] = {}
    for family in ("-4", "-6"):
        said = namespace.run(["ip", "-json", family, "route", "show", "protocol", protocol]).stdout
        for route in json.loads(said or "[]"):
            hops = route.get("nexthops", [route])
            prefix = route["dst"] if "/" in route["dst"] else route["dst"] + ("/32" if family == "-4" else "/128")
            alive = frozenset(hop["dev"] for hop in hops if "dev" in hop and "dead" not in hop.get("flags", ()))
            found[prefix] = found.get(prefix, frozenset()) | alive
    return found


@dataclass(frozen=True, slots=True)
class DefaultRoute:
    """A default route of the main table."""

    version: int
    """IP version, 4 or 6."""
    metric: int
    index: int
    """Index of its outgoing interface; 0 if there are several next hops, or none."""
    gateway: str
    """Gateway address; "" without one."""
    refuses: bool
    """Whether it is a blackhole, unreachable or prohibit route (ip-route(8))."""


def default_routes(namespace: Namespace) -> list[DefaultRoute]:
    """Return the default routes of a namespace's main table: IPv4 first, the preferred route first."""
    found = [
        _default(_RTMSG.unpack(each.fixed), each.attributes)
        for each in namespace.inside(lambda: dump(_GETROUTE, _RTMSG))
        if _is_default(_RTMSG.unpack(each.fixed), each.attributes)
    ]
    return sorted(found, key=lambda each: (each.version, each.metric))


def _is_default(fixed: tuple[int, ...], found: Attributes) -> bool:
    """Return whether a route is a default route of the main table, and no cache entry."""
    _, length, _, _, table, _, _, kind, flags = fixed
    number = _U32.unpack(found[_RTA_TABLE])[0] if _RTA_TABLE in found else table
    return length == 0 and number == _MAIN_TABLE and kind in {_UNICAST, *_REFUSING} and not flags & _RTM_F_CLONED


def _default(fixed: tuple[int, ...], found: Attributes) -> DefaultRoute:
    return DefaultRoute(
        version=4 if fixed[0] == socket.AF_INET else 6,
        metric=_U32.unpack(found[_RTA_PRIORITY])[0] if _RTA_PRIORITY in found else 0,
        index=_U32.unpack(found[_RTA_OIF])[0] if _RTA_OIF in found else 0,
        gateway=str(ip_address(found[_RTA_GATEWAY])) if _RTA_GATEWAY in found else "",
        refuses=fixed[7] in _REFUSING,
    )


def trees(namespace: Namespace) -> dict[tuple[str, str], frozenset[str]]:
    """Return the outgoing interfaces of each resolved multicast route, by source (or ``ANYBODY``) and group."""
    said = json.loads(namespace.run(["ip", "-json", "mroute", "show"]).stdout or "[]")
    return {
        (route["src"], route["dst"]): frozenset(hop["oif"] for hop in route.get("multipath", ()))
        for route in said
        if route.get("state") == "resolved"
    }


def multicast_interfaces() -> frozenset[str]:
    """Return the interfaces on which a daemon has enabled multicast routing in the calling thread's namespace."""
    return frozenset(line.split()[1] for line in MULTICAST.read_text().splitlines()[1:])


class RouteNews:
    """Listens for changes of many namespaces' routing tables, without parsing them."""

    def __init__(self, namespaces: Iterable[Namespace]) -> None:
        self._selector = selectors.DefaultSelector()
        self._opened = contextlib.ExitStack()
        self._opened.callback(self._selector.close)
        for namespace in namespaces:
            events = self._opened.enter_context(listener(namespace, _ROUTES))
            self._selector.register(events, selectors.EVENT_READ, namespace.name)

    def __enter__(self) -> RouteNews:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def watch_process(self, pid: int, name: str) -> None:
        """Report ``name`` also when the process ends. Raises ProcessLookupError if it has ended or ``pid`` is 0."""
        if not pid:
            raise ProcessLookupError(f"no process for {name}")
        descriptor = os.pidfd_open(pid)
        self._opened.callback(os.close, descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, name)

    def wait(self, timeout: float) -> set[str]:
        """Return the names with changes, after at most ``timeout`` seconds. Discards the events themselves."""
        names = set()
        for key, _ in self._selector.select(timeout):
            names.add(key.data)
            if isinstance(key.fileobj, socket.socket):
                _drain(key.fileobj)
        return names


def _drain(link: socket.socket) -> None:
    """Read all pending events. Raises OSError if the socket broke: select(2) would report it forever."""
    while True:
        try:
            link.recv(1, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # some events were lost, which is a change, too
                raise


@dataclass(frozen=True, slots=True)
class FibRoute:
    """A route: its prefix, and its next hops. IPv6 routes of links (``fe80::/64``) are no routes here."""

    prefix: str
    hops: frozenset[str]
    """Names of outgoing interfaces, or their indices."""

    @property
    def version(self) -> int:
        """IP version, 4 or 6."""
        return 6 if ":" in self.prefix else 4


def is_of_link(prefix: str) -> bool:
    """Whether a prefix is one that each IPv6 interface has: of link-local or multicast addresses."""
    return prefix.startswith(("fe80:", "ff00:"))


class FibReader:
    """Reads the main table of one namespace."""

    def __init__(self, namespace: Namespace) -> None:
        """Open the sockets in the namespace. Raises OperationFailed if the namespace is gone."""
        self._routes: list[FibRoute] | None = None
        with contextlib.ExitStack() as opened:
            groups = EventGroup.IPV4_ROUTE | EventGroup.IPV6_ROUTE | EventGroup.LINK
            self._events = opened.enter_context(listener(namespace, groups))
            self._client = opened.enter_context(NetlinkClient(namespace.inside(netlink_socket)))
            self._opened = opened.pop_all()

    def read(self) -> list[FibRoute]:
        """Return all routes. Raises OSError if the kernel refuses.

        Linux removes IPv4 routes of a link that goes down without an event for each, so that links count as a change.
        """
        pending, lost = take(self._events)
        if self._routes is None or pending or lost:
            self._routes = list(_fib_routes(self._client))
        return self._routes

    def close(self) -> None:
        """Close the sockets."""
        self._opened.close()


def _fib_routes(client: NetlinkClient) -> Iterator[FibRoute]:
    for content in client.dump(_GETROUTE, bytes(_RTMSG.size)):
        family, length, _, _, table, _, _, kind, flags = _RTMSG.unpack_from(content)
        if table != _MAIN_TABLE or kind not in _FIB_TYPES or flags & _RTM_F_CLONED:
            continue
        found = attributes(content[_RTMSG.size :])
        wide = 4 if family == socket.AF_INET else 16
        prefix = f"{ip_address(found.get(_RTA_DST, bytes(wide)))}/{length}"
        if not is_of_link(prefix):
            yield FibRoute(prefix, frozenset(_next_hops(found)))


def _next_hops(found: Attributes) -> Iterator[str]:
    if _RTA_OIF in found:
        yield str(_I32.unpack(found[_RTA_OIF])[0])
    data = found.get(_RTA_MULTIPATH, b"")
    while len(data) >= _NEXT_HOP.size:
        length, _, _, index = _NEXT_HOP.unpack_from(data)
        yield str(index)
        data = data[max(_NEXT_HOP.size, (length + 3) & ~3) :]
