"""What the overlay of a running fabric says of itself: routes, VNIs, and what the kernels lack of the intent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.model.overlay.plan import plan_overlay
from lab.routing.evpn import Advertised, EvpnRoute, Vni, advertised, routes_at, vnis_at
from lab.routing.wait.evpn_expectations import expected_overlay

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.routing.wait.unconverged import RouteGap


@dataclass(frozen=True, slots=True)
class OverlayHealth:
    """The overlay as it is now."""

    routes: tuple[Advertised, ...]
    vnis: tuple[Vni, ...]
    gaps: tuple[str, ...]
    """What a leaf's kernel has not got, or has too much of: VTEPs to flood to, and subnets of its tenants."""

    @property
    def healthy(self) -> bool:
        """Whether all is there that must be."""
        return not self.gaps and all(vni.up for vni in self.vnis)


def examine_overlay(fabric: Fabric) -> OverlayHealth:
    """Ask every leaf that has a network, in parallel; UsageError for a fabric without an overlay."""
    overlay = plan_overlay(fabric.topology)
    if overlay is None:
        raise UsageError(f"fabric {fabric.name} has no overlay", "topologies/tenant.yaml is an example")
    if overlay.bridges:
        raise UsageError(f"fabric {fabric.name} is of plain VLANs and has no EVPN", "rocelab status shows its tree")
    expected = expected_overlay(fabric.topology, fabric.plan)

    def ask(leaf: str) -> tuple[list[EvpnRoute], list[Vni], list[RouteGap]]:
        router = fabric.router(leaf)
        lacks = [gap for each in expected[leaf] for gap in each.gaps(router)]
        return routes_at(router), vnis_at(router), lacks

    leaves = list(overlay.leaves)
    with ThreadPoolExecutor() as readers:
        said = dict(zip(leaves, readers.map(ask, leaves), strict=True))
    return OverlayHealth(
        routes=tuple(advertised({leaf: routes for leaf, (routes, _, _) in said.items()})),
        vnis=tuple(vni for _, vnis, _ in said.values() for vni in vnis),
        gaps=tuple(str(gap) for _, _, lacks in said.values() for gap in lacks),
    )
