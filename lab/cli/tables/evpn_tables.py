"""The overlay of a fabric as tables: VNIs and EVPN routes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.overlay_health import OverlayHealth
    from lab.routing.evpn import Advertised, Vni


_OF_VNIS: Final = ("leaf", "VNI", "kind", "tenant", "VTEP", "floods to", "MACs")
_OF_ROUTES: Final = ("type", "from", "RD", "VNI", "MAC or segment", "IP", "next hop", "RT", "moves", "at")


def as_data(fabric: str, overlay: OverlayHealth) -> dict[str, Any]:
    """Return the answer of ``rocelab status --evpn --json``."""
    return {"fabric": fabric, "healthy": overlay.healthy, **asdict(overlay)}


def show_overlay(fabric: str, overlay: OverlayHealth) -> None:
    """Print VNIs and routes, and missing or unexpected entries."""
    stdout.print(table(f"VNIs of {fabric}", _OF_VNIS, map(_vni_row, overlay.vnis)))
    stdout.print(table("EVPN routes", _OF_ROUTES, _route_rows(overlay.routes)))
    for gap in overlay.gaps:
        stdout.print(gap, markup=False, highlight=False)


def _vni_row(vni: Vni) -> tuple[object, ...]:
    floods = " ".join(vni.remote_vteps) if vni.kind == "L2" else "up" if vni.up else "down"
    return vni.leaf, vni.vni, vni.kind, vni.tenant, vni.vtep, floods, vni.macs if vni.kind == "L2" else ""


def _route_rows(routes: tuple[Advertised, ...]) -> Iterator[tuple[object, ...]]:
    for leaf, route, received in ((each.leaf, each.route, each.received) for each in routes):
        yield (
            route.type,
            leaf,
            route.rd,
            "/".join(map(str, route.vnis)),
            route.mac or route.esi,
            route.ip,
            route.next_hop,
            " ".join(route.route_targets),
            route.sequence or "",
            " ".join(received) or "nobody",
        )
