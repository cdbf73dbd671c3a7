"""Rules about the routes that the kernel adds with an address: the local one, and that to its network."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, Difference, described
from lab.audit.objects.kernel_objects import MAIN, RouteAudit
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.audit.audited import NodeAudit
    from lab.audit.objects.kernel_objects import AddressAudit

_LOCAL: Final = "local"
"""The type of a route to an address of the node itself, and the table of these routes (ip-route(8))."""
_UNUSED: Final = frozenset({"tentative", "dadfailed", "noprefixroute"})
"""Flags of addresses that lack a route by intent, or until they are used."""
_METRIC: Final = {4: "", 6: "256"}
"""The metric of the route to the network of an address, by IP version."""


def of_own_routes(node: NodeAudit) -> Iterator[Difference]:
    """Yield routes that the kernel added with an address of a port, and the node has in no table any more.

    Without the local route, the node forwards or drops packets to its own address. Without the other one, it has no
    way to its neighbours in the network.
    """
    local = {each.prefix for each in node.routes if each.type == _LOCAL}
    known = {each.prefix for each in node.routes}
    kinds = {each.name: each for each in node.interfaces}
    for each in node.addresses if local else ():
        port = kinds.get(each.interface)
        if each.scope != "global" or _UNUSED & {*each.flags} or port is None or not (port.up and port.carrier):
            continue
        for route in _added_with(each):
            if route.prefix not in (local if route.type == _LOCAL else known):
                expected = described(route)
                yield Difference.of(node.name, route, PRESENCE, ABSENT, expected, RULE)


def _added_with(address: AddressAudit) -> Iterator[RouteAudit]:
    """Yield the routes that the kernel adds with an address, in a node without VRFs."""
    found, ways = ip_interface(address.address), (f"dev {address.interface}",)
    single = f"{found.ip}/{found.max_prefixlen}"
    yield RouteAudit(prefix=single, table=_LOCAL, metric="", type=_LOCAL, protocol="kernel", next_hops=ways)
    if str(found.network) != single:
        metric = _METRIC[found.version]
        network = str(found.network)
        yield RouteAudit(network, MAIN, metric, type="unicast", protocol="kernel", next_hops=ways)
