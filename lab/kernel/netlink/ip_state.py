"""What belongs to an interface and goes when it goes down: read, and put back, by ip(8).

Only faults change these one at a time; fabrics are built by ``lab.kernel.netlink.links`` in batches.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lab.errors import OperationFailed
from lab.kernel.process.process import find_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.kernel.process.netns import Namespace

Kept: TypeAlias = dict[str, list[str]]
"""Arguments of ``ip`` that add each thing anew, by IP version: ``-4`` and ``-6``."""
_VERSIONS: Final = ("-4", "-6")
_KERNEL: Final = 2
_ZEBRA: Final = 11
_FIRST_DAEMON: Final = 186
"""Protocols of those who set routes by themselves when they see the interface: the kernel, and FRR's daemons."""
_UNICAST: Final = "1"
"""What ``ip -N`` calls routes to somewhere; the kernel makes all others with an address."""
_STATE: Final = {"linkdown", "dead"}
_NEVER_READ: Final = " pref medium"
"""What is printed of a route's state, and is no part of it."""


def ask(namespace: Namespace, *words: str) -> Any:
    """What ``ip -j WORDS`` answers in a namespace."""
    return json.loads(namespace.run([find_tool("ip", "iproute2"), "-j", *words]).stdout or "[]")


def change(namespace: Namespace, version: str, lines: Sequence[str]) -> None:
    """Have ``ip`` do all of ``lines`` in one go; CommandFailed at the first that it does not.

    ``version`` is ``-4``, ``-6``, or "" for what is of neither.
    """
    if lines:
        words = [find_tool("ip", "iproute2"), *filter(None, [version]), "-batch", "-"]
        namespace.run(words, stdin="".join(f"{x}\n" for x in lines))


def attempt(namespace: Namespace, version: str, line: str) -> None:
    """Have ``ip`` do one line, or not: what it is about may not be there."""
    namespace.run([find_tool("ip", "iproute2"), version, *line.split()], check=False)


def forget_cache(namespace: Namespace) -> None:
    """Forget what routers have said of routes: redirects, and smaller MTUs, kept for ten minutes (RFC 1191)."""
    for version in _VERSIONS:
        attempt(namespace, version, "route flush cache")


def link_local(namespace: Namespace, interface: str) -> str:
    """The IPv6 link-local address of an interface (RFC 4291 section 2.5.6); OperationFailed when it has none."""
    for state in ask(namespace, "-6", "addr", "show", "dev", interface, "scope", "link"):
        for each in filter(None, state.get("addr_info", ())):
            return str(each["local"])
    raise OperationFailed(f"{interface} in {namespace.name} has no link-local address", "rocelab status")


def is_up(namespace: Namespace, interface: str) -> bool:
    """Whether nobody has shut the interface down; it may still have no carrier."""
    return any("UP" in state["flags"] for state in ask(namespace, "link", "show", "dev", interface))


def keep(namespace: Namespace, interface: str) -> Kept:
    """The addresses and routes of an interface that nobody else would set again."""
    return {version: _kept(namespace, interface, version) for version in _VERSIONS}


def put_back(namespace: Namespace, interface: str, kept: Kept) -> None:
    """Set again what is not there of what was kept, and take away what was not."""
    for version in _VERSIONS:
        there = _kept(namespace, interface, version)
        gone = [undone(line) for line in reversed(there) if line not in kept[version]]
        change(namespace, version, gone)
        left = _kept(namespace, interface, version) if gone else there  # a route may go with its address
        change(namespace, version, [line for line in kept[version] if line not in left])


def _kept(namespace: Namespace, interface: str, version: str) -> list[str]:
    shown = ask(namespace, version, "addr", "show", "dev", interface, "scope", "global")
    # What the scope hides is an empty object.
    addresses = [_address(interface, each) for state in shown for each in state.get("addr_info", ()) if each]
    routes = namespace.run(
        [find_tool("ip", "iproute2"), version, "-d", "-N", "route", "show", "table", "all", "dev", interface]
    ).stdout
    return [*addresses, *_routes(interface, routes.splitlines())]


def _address(interface: str, shown: dict[str, Any]) -> str:
    label = " nodad" if shown.get("nodad") else ""
    return f"addr add {shown['local']}/{shown['prefixlen']} dev {interface}{label}"


def _routes(interface: str, lines: Iterable[str]) -> list[str]:
    """``ip -N -d`` prints a route, behind its type, so that it can be read again, but for its state.

    One with several next hops, which have lines of their own, stays with those that are left.
    """
    found, shown = [], list(lines)
    for line, following in zip_longest(shown, shown[1:], fillvalue=""):
        if " proto " not in line or " nhid " in line or following.lstrip().startswith("nexthop"):
            continue
        kind, *words = (word for word in line.replace(_NEVER_READ, "").split() if word not in _STATE)
        protocol = int(words[words.index("proto") + 1])
        if kind == _UNICAST and protocol not in {_KERNEL, _ZEBRA} and protocol < _FIRST_DAEMON:
            found.append(f"route add {' '.join(words)} dev {interface}")
    return found


def undone(line: str) -> str:
    """What takes away again what ``line`` adds."""
    what, _, rest = line.partition(" add ")
    return f"{what} del {rest.removesuffix(' nodad')}"
