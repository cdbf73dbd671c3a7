"""What FRR says of the overlay, as typed facts: routes of EVPN (RFC 7432 section 7, RFC 9136) and VNIs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.routing.show import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.routing.daemons import Router

_SEGMENT_AT: Final = {1: 2, 4: 1}
"""By the type, where in its name a route has its segment."""
_PREFIX: Final = 5
"""The type of a route that has a prefix instead of a host (RFC 9136)."""


@dataclass(frozen=True, slots=True)
class EvpnRoute:
    """One route as one leaf has it."""

    type: int
    """1 auto-discovery, 2 MAC/IP, 3 inclusive multicast, 4 Ethernet segment (RFC 7432), 5 IP prefix (RFC 9136)."""
    rd: str
    """Route distinguisher."""
    route_targets: tuple[str, ...]
    vnis: tuple[int, ...]
    """The network's, then the tenant's where the route has both."""
    mac: str
    """Of type 2; "" of others."""
    ip: str
    """A host's address, a prefix with its length, or the VTEP that wants flooded packets; "" where there is none."""
    next_hop: str
    """The VTEP."""
    router_mac: str
    """To which packets of the tenant are addressed inside the tunnel (RFC 9135 section 8.1); "" without."""
    sequence: int
    """How often the MAC has moved (RFC 7432 section 7.7)."""
    esi: str
    """Ethernet segment identifier; "" for a host on one leaf alone."""
    local: bool
    """Whether the leaf tells it of itself."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """One route of the fabric: who tells it, and who has it."""

    leaf: str
    route: EvpnRoute
    received: tuple[str, ...]
    """The other leaves that have it."""


@dataclass(frozen=True, slots=True)
class Vni:
    """One VNI at one leaf."""

    leaf: str
    vni: int
    kind: str
    """L2 or L3."""
    tenant: str
    """Its VRF; "" for none."""
    device: str
    vtep: str
    """The leaf's own address."""
    remote_vteps: tuple[str, ...]
    """Of an L2VNI: those to which it floods."""
    macs: int
    """Of an L2VNI: known to zebra, its own and remote ones."""
    up: bool
    """Of an L3VNI: whether it routes."""


def routes_at(router: Router) -> list[EvpnRoute]:
    """All EVPN routes of a router by their best paths; OperationFailed when it does not answer."""
    return list(parse_routes(show(router, "bgpd", "show bgp l2vpn evpn route detail json")))


def parse_routes(said: Mapping[str, Any]) -> Iterator[EvpnRoute]:
    """The routes in ``show bgp l2vpn evpn route detail json``."""
    for rd, routes in said.items():
        if isinstance(routes, dict):
            for name, route in routes.items():
                if isinstance(route, dict) and (path := _best(route.get("paths", ()))):
                    yield _route(rd, name, route, path)


def _best(paths: Iterable[Any]) -> Mapping[str, Any] | None:
    """The path that is used, of lists of one path each or of paths."""
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
        vnis=vnis[:1] if mac and not ip else vnis,  # FRR names the tenant's too, which a MAC alone does not carry
        mac=mac,
        ip=f"{ip}/{route['ipLen']}" if kind == _PREFIX else ip,
        next_hop=next((hop["ip"] for hop in path.get("nexthops", ()) if hop.get("used")), ""),
        router_mac=next(_values(words, "Rmac"), ""),
        sequence=int(next(_values(words, "MM"), "0").split(",")[0]),
        esi=_segment(kind, name, path),
        local=bool(path.get("local")),
    )


def _segment(kind: int, name: str, path: Mapping[str, Any]) -> str:
    """The Ethernet segment of a route: in its name, ``[1]:[0]:[03:02:...]``, or in what is said of its path."""
    place = _SEGMENT_AT.get(kind)
    if place is not None:
        return name.strip("[]").split("]:[")[place]
    return str(path.get("esi", ""))


def _values(words: Iterable[str], key: str) -> Iterator[str]:
    """The values of extended communities as FRR prints them: ``RT:28833:10010``."""
    return (word.removeprefix(f"{key}:") for word in words if word.startswith(f"{key}:"))


def advertised(by_leaf: Mapping[str, Iterable[EvpnRoute]]) -> list[Advertised]:
    """Every route that a leaf tells, beside those that have it, in the order of types and leaves."""
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
    """Of MACs the segment is no part of the route's name (RFC 7432 section 7.2)."""
    return route.rd, route.type, route.mac or route.esi, route.ip


def vnis_at(router: Router) -> list[Vni]:
    """All VNIs of a router; OperationFailed when it does not answer."""
    return parse_vnis(router.name, show(router, "zebra", "show evpn vni detail json"))


def parse_vnis(leaf: str, said: Iterable[Mapping[str, Any]]) -> list[Vni]:
    """The VNIs in ``show evpn vni detail json``, in the order of their numbers."""
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
