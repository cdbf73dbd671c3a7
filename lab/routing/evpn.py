"""EVPN routes (RFC 7432 section 7, RFC 9136) and VNIs, as FRR reports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.routing.show import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.routing.daemons import Router

_SEGMENT_AT: Final = {1: 2, 4: 1}
"""The position of the segment in a route's name, by route type."""
_PREFIX: Final = 5
"""The type of IP prefix routes (RFC 9136)."""


@dataclass(frozen=True, slots=True)
class EvpnRoute:
    """One route in the table of one leaf."""

    type: int
    """1 auto-discovery, 2 MAC/IP, 3 inclusive multicast, 4 Ethernet segment (RFC 7432), 5 IP prefix (RFC 9136)."""
    rd: str
    """Route distinguisher."""
    route_targets: tuple[str, ...]
    vnis: tuple[int, ...]
    """The network's VNI, followed by the tenant's if the route has both."""
    mac: str
    """The MAC of a type-2 route; "" for others."""
    ip: str
    """A host's address, a prefix with its length, or the VTEP of an inclusive multicast route; "" for none."""
    next_hop: str
    """The VTEP."""
    router_mac: str
    """The inner destination MAC of packets that the tenant routes (RFC 9135 section 8.1); "" for none."""
    sequence: int
    """The number of moves of the MAC (RFC 7432 section 7.7)."""
    esi: str
    """Ethernet segment identifier; "" for hosts with a single leaf."""
    local: bool
    """Whether the leaf itself originates the route."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """One route of the fabric: the leaf that originates it, and the leaves that received it."""

    leaf: str
    route: EvpnRoute
    received: tuple[str, ...]
    """The other leaves that have the route."""


@dataclass(frozen=True, slots=True)
class Vni:
    """One VNI at one leaf."""

    leaf: str
    vni: int
    kind: str
    """L2 or L3."""
    tenant: str
    """The VRF of the tenant; "" for none."""
    device: str
    vtep: str
    """The leaf's own VTEP address."""
    remote_vteps: tuple[str, ...]
    """L2VNI only: the VTEPs that the leaf floods to."""
    macs: int
    """L2VNI only: the number of MACs that zebra knows, local and remote."""
    up: bool
    """L3VNI only: whether it routes."""


def routes_at(router: Router) -> list[EvpnRoute]:
    """Return the best path of every EVPN route of a router; raise OperationFailed if bgpd does not answer."""
    return list(parse_routes(show(router, "bgpd", "show bgp l2vpn evpn route detail json")))


def parse_routes(said: Mapping[str, Any]) -> Iterator[EvpnRoute]:
    """Yield the routes in ``show bgp l2vpn evpn route detail json``."""
    for rd, routes in said.items():
        if isinstance(routes, dict):
            for name, route in routes.items():
                if isinstance(route, dict) and (path := _best(route.get("paths", ()))):
                    yield _route(rd, name, route, path)


def _best(paths: Iterable[Any]) -> Mapping[str, Any] | None:
    """Return the best path from a list of paths, or of lists of paths."""
    flat = [path for each in paths for path in (each if isinstance(each, list) else [each])]
    return next((path for path in flat if path.get("bestpath", {}).get("overall")), None)


def _route(rd: str, name: str, route: Mapping[str, Any], path: Mapping[str, Any]) -> EvpnRoute:
    kind = int(route["routeType"])
    words = path.get("extendedCommunity", {}).get("string", "").split()
    mac, ip = route.get("mac", ""), route.get("ip", "")
    said = path.get("vni") or path.get("pmsi", {}).get("label", "")
    vnis = tuple(int(number) for number in str(said).split("/") if number.isdecimal())
    return EvpnRoute(
        type=kind,
        rd=rd,
        route_targets=tuple(_values(words, "RT")),
        vnis=vnis[:1] if mac and not ip else vnis,  # FRR adds the tenant's VNI; a MAC alone carries none
        mac=mac,
        ip=f"{ip}/{route['ipLen']}" if kind == _PREFIX else ip,
        next_hop=next((hop["ip"] for hop in path.get("nexthops", ()) if hop.get("used")), ""),
        router_mac=next(_values(words, "Rmac"), ""),
        sequence=int(next(_values(words, "MM"), "0").split(",")[0]),
        esi=_segment(kind, name, path),
        local=bool(path.get("local")),
    )


def _segment(kind: int, name: str, path: Mapping[str, Any]) -> str:
    """Return the Ethernet segment of a route, from its name (``[1]:[0]:[03:02:...]``) or from its path."""
    place = _SEGMENT_AT.get(kind)
    if place is not None:
        return name.strip("[]").split("]:[")[place]
    return str(path.get("esi", ""))


def _values(words: Iterable[str], key: str) -> Iterator[str]:
    """Return the values of extended communities as FRR prints them: ``RT:28833:10010``."""
    return (word.removeprefix(f"{key}:") for word in words if word.startswith(f"{key}:"))


def advertised(by_leaf: Mapping[str, Iterable[EvpnRoute]]) -> list[Advertised]:
    """Return every route that a leaf originates, with the leaves that received it, by type and leaf."""
    tables = {leaf: list(routes) for leaf, routes in by_leaf.items()}
    holders: dict[tuple[str, int, str, str], list[str]] = {}
    for leaf, routes in tables.items():
        for route in routes:
            if not route.local:
                holders.setdefault(_key(route), []).append(leaf)
    found = [
        Advertised(leaf, route, tuple(holders.get(_key(route), ())))
        for leaf, routes in tables.items()
        for route in routes
        if route.local
    ]
    return sorted(
        found, key=lambda each: (each.route.type, each.leaf, each.route.vnis, each.route.mac, each.route.ip)
    )


def _key(route: EvpnRoute) -> tuple[str, int, str, str]:
    """Return the identity of a route. The segment is not part of it for MAC routes (RFC 7432 section 7.2)."""
    return route.rd, route.type, route.mac or route.esi, route.ip


def vnis_at(router: Router) -> list[Vni]:
    """Return all VNIs of a router; raise OperationFailed if zebra does not answer."""
    return parse_vnis(router.name, show(router, "zebra", "show evpn vni detail json"))


def parse_vnis(leaf: str, said: Iterable[Mapping[str, Any]]) -> list[Vni]:
    """Return the VNIs in ``show evpn vni detail json``, sorted by number."""
    found = [
        Vni(
            leaf=leaf,
            vni=int(each["vni"]),
            kind=each["type"],
            tenant="" if each.get("tenantVrf") in {None, "default"} else each["tenantVrf"],
            device=each.get("vxlanInterface") or each.get("vxlanIntf") or "",
            vtep=each.get("vtepIp") or each.get("localVtepIp") or "",
            remote_vteps=tuple(sorted(peer["ip"] for peer in each.get("remoteVteps") or () if "ip" in peer)),
            macs=each.get("numMacs") or 0,
            up=each.get("state", "Up") == "Up",
        )
        for each in said
    ]
    return sorted(found, key=lambda vni: vni.vni)
