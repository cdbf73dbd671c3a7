"""The source address and next-hop MAC address that a namespace's stack would use for a packet."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import CommandFailed, OperationFailed, UsageError
from lab.kernel.netlink.interfaces import no_interface
from lab.kernel.netlink.netlink_events import EventGroup, listener, take
from lab.kernel.process.process import readable

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

_TIMEOUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class Route:
    """A route to an address: the source that the kernel would choose ("" if none), and the next hop."""

    source: str
    next_hop: str


def mac_address(namespace: Namespace, interface: str) -> str:
    """Return the interface's own MAC address. Raises OperationFailed if the node has no such interface now."""
    try:
        (link,) = _ip(namespace, "link", "show", "dev", interface)
    except CommandFailed as error:
        raise no_interface(namespace.name, interface) from error
    return str(link["address"])


def route(namespace: Namespace, interface: str, destination: str) -> Route:
    """Return the route of packets to ``destination`` by ``interface``. Raises UsageError if there is none."""
    try:
        (found,) = _ip(namespace, "route", "get", destination, "oif", interface)
    except CommandFailed as error:
        raise UsageError(
            f"{namespace.name} has no route to {destination} by {interface}",
            "choose another destination, or give addresses of both ends and --dst-mac",
        ) from error
    via = found.get("via", {}).get("host")  # an IPv6 next hop of an IPv4 destination (RFC 8950)
    return Route(found.get("prefsrc", ""), found.get("gateway") or via or destination)


def resolve(namespace: Namespace, interface: str, address: str) -> str:
    """Return the MAC address of a neighbour; ARP or neighbour discovery resolves one unknown to the kernel.

    Raises OperationFailed without an answer within three seconds.
    """
    if known := _known(namespace, interface, address):
        return known
    with listener(namespace, EventGroup.NEIGHBOUR) as events:
        namespace.run(["ip", "neigh", "replace", address, "dev", interface, "use"])
        deadline = time.monotonic() + _TIMEOUT
        while not (known := _known(namespace, interface, address)):
            if not readable(events, max(0, deadline - time.monotonic())):
                raise OperationFailed(
                    f"{address} does not answer on {interface} of {namespace.name}", "give --dst-mac"
                )
            take(events)
    return known


def _known(namespace: Namespace, interface: str, address: str) -> str:
    """Return a neighbour's MAC address from the kernel's table; "" if it has none."""
    entries = _ip(namespace, "neigh", "show", "to", address, "dev", interface)
    return next(
        (str(entry["lladdr"]) for entry in entries if "lladdr" in entry and "FAILED" not in entry.get("state", ())),
        "",
    )


def _ip(namespace: Namespace, *words: str) -> list[dict[str, Any]]:
    """Return the parsed output of ``ip -json``. Some versions print nothing for an empty list."""
    found: list[dict[str, Any]] = json.loads(namespace.run(["ip", "-json", *words]).stdout or "[]")
    return found
