"""A namespace's forwarding table, and the news that it changed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from lab.kernel.netns import Namespace

ANYBODY: Final = "0.0.0.0"  # noqa: S104 -- no address to listen on: the source of a tree that all senders share
"""The source of a route for whatever is sent to a group."""
MULTICAST: Final = Path("/proc/thread-self/net/ip_mr_vif")
"""By what interfaces the calling thread's namespace routes multicast: a line each, behind one of headings."""
_RTMGRP_IPV4_MROUTE: Final = 0x20
_RTMGRP_IPV4_ROUTE: Final = 0x40
_RTMGRP_IPV6_ROUTE: Final = 0x400


def routes(namespace: Namespace, protocol: str = "bgp") -> dict[str, frozenset[str]]:
    """What the kernel forwards by: the interfaces of the next hops of each prefix that ``protocol`` installed."""
    found: dict[str, frozenset[str]] = {}
    for family in ("-4", "-6"):
        said = namespace.run(["ip", "-json", family, "route", "show", "protocol", protocol]).stdout
        for route in json.loads(said or "[]"):
            hops = route.get("nexthops", [route])
            prefix = route["dst"] if "/" in route["dst"] else route["dst"] + ("/32" if family == "-4" else "/128")
            alive = frozenset(hop["dev"] for hop in hops if "dev" in hop and "dead" not in hop.get("flags", ()))
            found[prefix] = found.get(prefix, frozenset()) | alive
    return found


def trees(namespace: Namespace) -> dict[tuple[str, str], frozenset[str]]:
    """By which interfaces multicast routes that are in use go on, by source, ``ANYBODY`` for all, and group."""
    said = json.loads(namespace.run(["ip", "-json", "mroute", "show"]).stdout or "[]")
    return {
        (route["src"], route["dst"]): frozenset(hop["oif"] for hop in route.get("multipath", ()))
        for route in said
        if route.get("state") == "resolved"
    }


def multicast_interfaces() -> frozenset[str]:
    """By which interfaces a daemon has the calling thread's namespace route multicast."""
    return frozenset(line.split()[1] for line in MULTICAST.read_text().splitlines()[1:])


class RouteNews:
    """Listens to the routing tables of many namespaces at once, without reading what changed."""

    def __init__(self, namespaces: Iterable[Namespace]) -> None:
        self._selector = selectors.DefaultSelector()
        self._opened = contextlib.ExitStack()
        self._opened.callback(self._selector.close)
        for namespace in namespaces:
            listener = namespace.inside(_route_socket)
            self._opened.enter_context(listener)
            listener.setblocking(False)
            listener.bind((0, _RTMGRP_IPV4_MROUTE | _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_ROUTE))
            self._selector.register(listener, selectors.EVENT_READ, namespace.name)

    def __enter__(self) -> RouteNews:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def watch_process(self, pid: int, name: str) -> None:
        """Also report ``name`` as soon as the process ends; ProcessLookupError when it has ended, or is 0: nobody."""
        if not pid:
            raise ProcessLookupError(f"no process for {name}")
        descriptor = os.pidfd_open(pid)
        self._opened.callback(os.close, descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, name)

    def wait(self, timeout: float) -> set[str]:
        """Names with news, after at most ``timeout`` seconds; the news itself is thrown away."""
        names = set()
        for key, _ in self._selector.select(timeout):
            names.add(key.data)
            if isinstance(key.fileobj, socket.socket):
                _drain(key.fileobj)
        return names


def _route_socket() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


def _drain(listener: socket.socket) -> None:
    """Read all there is. OSError when nothing can be read any more: select(2) would report it for ever."""
    while True:
        try:
            listener.recv(1, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # some was lost, which is news all the same
                raise
