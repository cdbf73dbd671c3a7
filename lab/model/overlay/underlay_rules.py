"""Rules of overlay and underlay: the protocol is set once, and the design works over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.model.overlay.intent import Design
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.overlay.overlay_spec import OverlaySpec
    from lab.model.topology import Underlay


def check_underlay(spec: OverlaySpec, routing: Underlay | None) -> Iterator[SpecFinding]:
    """Yield findings about ``overlay.underlay``, or about ``routing.underlay`` with this overlay."""
    if spec.underlay is not None and routing is not None and spec.underlay is not routing:
        message = f"{spec.underlay} contradicts routing.underlay, which is {routing}"
        yield SpecFinding(("overlay", "underlay"), message, "keep routing.underlay, and leave this one out")
        return
    place = ("routing", "underlay") if spec.underlay is None else ("overlay", "underlay")
    underlay = spec.underlay or routing
    if underlay is None or not underlay.is_igp:
        return
    if spec.design is Design.VLANS:
        message = f"{underlay} is not of design vlans: there is no underlay"
        yield SpecFinding(place, message, "leave underlay out, or choose a design with EVPN")
    elif spec.design is not Design.IBGP:
        message = f"design {spec.design} needs the AS numbers of an eBGP underlay, and this one is {underlay}"
        yield SpecFinding(place, message, "say design: ibgp in overlay")
