"""Addresses and routes that an interface loses when it goes down: saved and restored by ip(8).

Only faults change these one at a time. Fabrics are built by ``lab.kernel.netlink.links`` in batches.
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
"""``ip`` commands that add each address and route again, by IP version: ``-4`` and ``-6``."""
_VERSIONS: Final = ("-4", "-6")
_KERNEL: Final = 2
_ZEBRA: Final = 11
_FIRST_DAEMON: Final = 186
"""Protocols that set their routes again by themselves when the interface comes back: the kernel and FRR's daemons."""
_UNICAST: Final = "1"
"""The type of unicast routes in ``ip -N``. The kernel creates all other types with an address."""
_STATE: Final = {"linkdown", "dead"}
_TUNNEL_END: Final = "encap dst"
_NEVER_READ: Final = " pref medium"
"""Printed for a route as state; ``ip`` does not accept it back."""


def ask(namespace: Namespace, *words: str) -> Any:
    """Return the parsed output of ``ip -j WORDS`` in a namespace."""
    return json.loads(namespace.run([find_tool("ip", "iproute2"), "-j", *words]).stdout or "[]")


def documents(said: str, count: int) -> list[Any]:
    """Parse concatenated JSON documents, padded to ``count``: some versions of ip print nothing for an empty list.

    Of a route through a tunnel, iproute2 prints ``dst`` twice. The first is the prefix of the route. The second is
    the end of the tunnel, which is called ``encap dst``.
    """
    found: list[Any] = []
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    rest = said.lstrip()
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(document)
        rest = rest[end:].lstrip()
    return found + [[]] * (count - len(found))


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[_TUNNEL_END if name == "dst" and "encap" in found and "dst" in found else name] = value
    return found


def change(namespace: Namespace, version: str, lines: Sequence[str]) -> None:
    """Run all ``lines`` in one ``ip -batch``. Raises CommandFailed at the first that fails.

    ``version`` is ``-4``, ``-6``, or "" for commands of neither.
    """
    if lines:
        words = [find_tool("ip", "iproute2"), *filter(None, [version]), "-batch", "-"]
        namespace.run(words, stdin="".join(f"{x}\n" for x in lines))


def attempt(namespace: Namespace, version: str, line: str) -> None:
    """Run one ``ip`` command and ignore its failure: the object may not exist."""
    namespace.run([find_tool("ip", "iproute2"), version, *line.split()], check=False)


def forget_cache(namespace: Namespace) -> None:
    """Flush the routing cache: redirects, and path MTUs, which the kernel keeps for ten minutes (RFC 1191)."""
    for version in _VERSIONS:
        attempt(namespace, version, "route flush cache")


def link_local(namespace: Namespace, interface: str) -> str:
    """Return the IPv6 link-local address of an interface (RFC 4291 section 2.5.6). OperationFailed if it has none."""
    for state in ask(namespace, "-6", "addr", "show", "dev", interface, "scope", "link"):
        for each in filter(None, state.get("addr_info", ())):
            return str(each["local"])
    raise OperationFailed(f"{interface} in {namespace.name} has no link-local address", "rocelab status")


def is_up(namespace: Namespace, interface: str) -> bool:
    """Return whether the interface is administratively up; it may still have no carrier."""
    return any("UP" in state["flags"] for state in ask(namespace, "link", "show", "dev", interface))


def keep(namespace: Namespace, interface: str) -> Kept:
    """Return the addresses and routes of an interface that nothing else would restore."""
    return {version: _kept(namespace, interface, version) for version in _VERSIONS}


def put_back(namespace: Namespace, interface: str, kept: Kept) -> None:
    """Restore exactly what ``keep`` returned: add missing entries, and remove those added since."""
    for version in _VERSIONS:
        there = _kept(namespace, interface, version)
        gone = [undone(line) for line in reversed(there) if line not in kept[version]]
        change(namespace, version, gone)
        left = _kept(namespace, interface, version) if gone else there  # a route may go with its address
        change(namespace, version, [line for line in kept[version] if line not in left])


def _kept(namespace: Namespace, interface: str, version: str) -> list[str]:
    shown = ask(namespace, version, "addr", "show", "dev", interface, "scope", "global")
    # An address outside the scope is printed as an empty object.
    addresses = [_address(interface, each) for state in shown for each in state.get("addr_info", ()) if each]
    routes = namespace.run(
        [find_tool("ip", "iproute2"), version, "-d", "-N", "route", "show", "table", "all", "dev", interface]
    ).stdout
    return [*addresses, *_routes(interface, routes.splitlines())]


def _address(interface: str, shown: dict[str, Any]) -> str:
    label = " nodad" if shown.get("nodad") else ""
    return f"addr add {shown['local']}/{shown['prefixlen']} dev {interface}{label}"


def _routes(interface: str, lines: Iterable[str]) -> list[str]:
    """Return the ``ip`` commands that restore the routes of an ``ip -N -d route`` listing, without those of daemons.

    ``ip`` accepts the printed route, after its type, except for its state. Multipath routes are skipped: their next
    hops have lines of their own, and the route stays with the remaining next hops.
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
    """Return the ``ip`` command that removes what ``line`` adds."""
    what, _, rest = line.partition(" add ")
    return f"{what} del {rest.removesuffix(' nodad')}"
