"""Static routes of a switch that override learned ones: black holes, loops, and next-hop groups."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from typing_extensions import override

from lab.errors import UsageError
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import FaultPlace, Form
from lab.kernel.netlink import ip_state
from lab.wire.craft.packet_values import between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before
    from lab.model.topology import Endpoint

_BLACK_HOLE: Final = "nowhere"
_FEWEST: Final = 2


class RouteParameters(Parameters):
    """The parameters of static-route."""

    to: str
    """A host (all of its addresses), or a prefix like 10.0.0.0/24."""
    via: str = _BLACK_HOLE
    """nowhere for a black hole, or neighbours of the switch, separated by commas. The neighbour that the packets come
    from makes a loop."""
    buckets: Annotated[int, between(1, 65536)] | None = None
    """The buckets of a resilient next-hop group: flows stay in their bucket, and only the buckets of a lost next hop
    move (ip-nexthop(8)). Without it, the hash is divided among the current next hops."""


class StaticRoute(Fault[RouteParameters]):
    """A switch has a static route that overrides the learned one: a black hole or a loop.

    With several neighbours it has static equal-cost paths. Routing does not update them: a link that recovers is not
    used again.
    """

    name: ClassVar = "static-route"
    form: ClassVar = Form.SWITCH
    parameters: ClassVar = RouteParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(f"the route to {prefix} of {self.place.node}" for prefix in self._prefixes())

    @override
    def look(self) -> Before:
        hops = self._hops()
        for prefix in self._prefixes():
            taken = ip_state.ask(self.namespace, _version(prefix), "route", "show", "exact", prefix)
            if any("metric" not in each for each in taken):
                raise UsageError(f"{self.place.node} has a route of its own to {prefix}", "choose another")
        if self.p.buckets is not None:
            return self._group(hops)
        ways = f" nexthop {' nexthop '.join(hops)}" if len(hops) > 1 else "".join(f" {hop}" for hop in hops)
        return {"group": [], "routes": [f"{'' if hops else 'blackhole '}{each}{ways}" for each in self._prefixes()]}

    def _group(self, hops: Sequence[str]) -> Before:
        """Return the nexthop objects of a resilient group, the group last, with unused ids."""
        if len(hops) < _FEWEST:
            raise UsageError("static-route: buckets are of several next hops", "give via=spine1,spine2")
        taken = [int(each["id"]) for each in ip_state.ask(self.namespace, "nexthop", "show")]
        first = max(taken, default=0) + 1
        numbers = range(first, first + len(hops))
        made = [f"id {number} {hop}" for number, hop in zip(numbers, hops, strict=True)]
        group = f"id {numbers.stop} group {'/'.join(map(str, numbers))} type resilient buckets {self.p.buckets}"
        return {"group": [*made, group], "routes": [f"{each} nhid {numbers.stop}" for each in self._prefixes()]}

    @override
    def inject(self, before: Before) -> None:
        ip_state.change(self.namespace, "", [f"nexthop add {each}" for each in before["group"]])
        for route in before["routes"]:
            ip_state.change(self.namespace, _version(route), [f"route add {route}"])

    @override
    def heal(self, before: Before) -> None:
        namespace = self.namespace
        for route in before["routes"]:
            there = ip_state.ask(namespace, _version(route), "route", "show", "exact", _prefix(route))
            if any("metric" not in each or each.get("type") == "blackhole" for each in there):
                ip_state.change(namespace, _version(route), [f"route del {route}"])
        for each in reversed(before["group"]):  # the kernel may have removed some with their links
            ip_state.attempt(namespace, "-4", f"nexthop del {' '.join(each.split()[:2])}")

    def _prefixes(self) -> list[str]:
        if self.p.to in self.fabric.plan:
            own = [nic.address for nic in self.fabric.plan[self.p.to].interfaces.values() if nic.address is not None]
            return [f"{address.ip}/{address.max_prefixlen}" for address in own]
        try:
            return [str(ip_network(self.p.to))]
        except ValueError as error:
            raise UsageError(f"{self.p.to!r} is no node and no prefix", "write h5, or 10.0.0.0/24") from error

    def _hops(self) -> list[str]:
        """Return ``via ADDRESS dev INTERFACE`` of each neighbour; empty for a black hole."""
        return [] if self.p.via == _BLACK_HOLE else [self._hop(name.strip()) for name in self.p.via.split(",")]

    def _hop(self, neighbour: str) -> str:
        towards: dict[str, Endpoint] = {}
        for link in self.fabric.topology.links_of(self.place.node):
            end = link.end_at(self.place.node)
            towards.setdefault(link.other(end).node, end)
        if neighbour not in towards:
            raise UsageError(
                f"{self.place.node} has no link to {neighbour!r}", f"it has links to {', '.join(towards)}"
            )
        end = towards[neighbour]
        link = next(link for link in self.fabric.topology.links if end in link.ends)
        far = link.other(end)
        address = ip_state.link_local(self.fabric.namespace(far.node), far.interface)
        return f"via inet6 {address} dev {end.interface}"


class LoopParameters(Parameters):
    """The parameters of routing-loop."""

    to: str
    """A host (all of its addresses), or a prefix like 10.0.0.0/24."""


class RoutingLoop(Fault[LoopParameters]):
    """Two neighbouring switches forward a host's packets to each other, until the TTL ends.

    Both have a static route that overrides the learned one.
    """

    name: ClassVar = "routing-loop"
    form: ClassVar = Form.LINK
    parameters: ClassVar = LoopParameters

    @override
    def claims(self) -> frozenset[str]:
        return frozenset(claim for route in self._routes() for claim in route.claims())

    @override
    def look(self) -> Before:
        return {route.place.node: route.look() for route in self._routes()}

    @override
    def inject(self, before: Before) -> None:
        for route in self._routes():
            route.inject(before[route.place.node])

    @override
    def heal(self, before: Before) -> None:
        for route in reversed(self._routes()):
            route.heal(before[route.place.node])

    def _routes(self) -> list[StaticRoute]:
        """Return a static route of each switch by the other one."""
        link = next(link for link in self.fabric.topology.links if self.end in link.ends)
        nodes = [self.end.node, link.other(self.end).node]
        hosts = [name for name in nodes if not self.fabric.topology.node(name).role.is_switch]
        if hosts:
            raise UsageError(
                f"{self.name}: {self.place} leads to {hosts[0]}, which is no switch", "name a link of two switches"
            )
        return [
            StaticRoute(self.fabric, FaultPlace(node, node), RouteParameters(to=self.p.to, via=other))
            for node, other in (nodes, nodes[::-1])
        ]


def _version(route: str) -> str:
    return "-6" if ":" in _prefix(route) else "-4"


def _prefix(route: str) -> str:
    return route.removeprefix("blackhole ").split()[0]
