"""EVPN in a switch's configuration: over the sessions of the underlay (RFC 8365), and a VRF for each tenant.

Every switch takes the address family, or routes would end at the spines, which leave next hops as they are: FRR does
so by itself. Route distinguishers and targets are FRR's own: with an AS number for each leaf it compares only the VNI
of a target (RFC 8365 section 5.1.2.1 has them made of both).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.addressing import NodePlan
    from lab.model.overlay.plan import LeafOverlay


def zebra_vrfs(leaf: LeafOverlay | None) -> Iterator[str]:
    """Which VNI routes for which VRF; nothing for a switch without tenants."""
    for vrf in leaf.vrfs if leaf else ():
        if vrf.l3vni:
            yield f"vrf {vrf.name}"
            yield f" vni {vrf.l3vni}"
            yield "exit-vrf"


def bgp_family(group: str, leaf: LeafOverlay | None) -> Iterator[str]:
    """The address family on the sessions of the peer group; a leaf with networks tells all that it has."""
    yield " !"
    yield " address-family l2vpn evpn"
    yield f"  neighbor {group} activate"
    if leaf is not None:
        yield "  advertise-all-vni"
    yield " exit-address-family"


def bgp_vrfs(plan: NodePlan, leaf: LeafOverlay | None, paths: int) -> Iterator[str]:
    """The tenants that are routed: their subnets as type-5 routes (RFC 9136), by at most ``paths`` paths."""
    for vrf in leaf.vrfs if leaf else ():
        if vrf.l3vni:
            yield "!"
            yield f"router bgp {plan.asn} vrf {vrf.name}"
            yield f" bgp router-id {plan.loopback4}"
            yield " no bgp ebgp-requires-policy"
            yield " no bgp default ipv4-unicast"
            yield " bgp bestpath as-path multipath-relax"
            for family in ("ipv4", "ipv6"):
                yield " !"
                yield f" address-family {family} unicast"
                yield "  redistribute connected"
                yield f"  maximum-paths {paths}"
                yield " exit-address-family"
            yield " !"
            yield " address-family l2vpn evpn"
            yield "  advertise ipv4 unicast"
            yield "  advertise ipv6 unicast"
            yield " exit-address-family"
            yield "exit"
