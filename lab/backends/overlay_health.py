"""The health of a running fabric's overlay: EVPN routes, VNIs, and differences between kernel and topology."""

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
    """The current state of the overlay."""

    routes: tuple[Advertised, ...]
    vnis: tuple[Vni, ...]
    gaps: tuple[str, ...]
    """Missing and unexpected entries in the leaves' kernels: VTEPs for flooding, and subnets of tenants."""

    @property
    def healthy(self) -> bool:
        """Whether no entry is missing or unexpected, and all VNIs are up."""
        return not self.gaps and all(vni.up for vni in self.vnis)


def examine_overlay(fabric: Fabric) -> OverlayHealth:
    """Return the state of the overlay, read from all leaves in parallel; UsageError without an EVPN overlay."""
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
