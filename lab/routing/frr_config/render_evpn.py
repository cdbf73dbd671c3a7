"""Render the EVPN part of a switch's configuration: sessions by design (RFC 8365), and a VRF for each tenant.

Every switch activates the address family; otherwise routes would end at the spines. FRR leaves their next hops
unchanged by default. Route distinguishers and targets are derived by FRR from AS number and VNI (RFC 8365 section
5.1.2.1). If leaves have different AS numbers, FRR compares only the VNI of a target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.addressing import OVERLAY_ASN
from lab.model.overlay.intent import Design
from lab.routing.frr_config.render_external import external_peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.addressing import NodePlan
    from lab.model.overlay.node_plan import External, LeafOverlay
    from lab.model.topology import Topology

_OVERLAY: Final = "OVERLAY"
_CLIENTS: Final = "CLIENTS"
"""The peer group of iBGP neighbours below: clients of route reflection (RFC 4456)."""
_FAMILIES: Final = {"ipv4": 4, "ipv6": 6}
_MULTIHOP: Final = 2
"""More than 1, because FRR does not treat loopbacks as directly connected, although each is one link away."""


def speaks_as(topology: Topology, plan: NodePlan) -> int:
    """Return the AS number of a switch's BGP: that of the underlay, or the overlay's common one with iBGP."""
    overlay = topology.overlay
    return OVERLAY_ASN if overlay is not None and overlay.design is Design.IBGP else plan.asn


def zebra_vrfs(leaf: LeafOverlay | None) -> Iterator[str]:
    """Yield the L3VNI of each VRF; nothing for a switch without tenants."""
    for vrf in leaf.vrfs if leaf else ():
        if vrf.l3vni:
            yield f"vrf {vrf.name}"
            yield f" vni {vrf.l3vni}"
            yield "exit-vrf"


def bgp_sessions(topology: Topology, plans: Mapping[str, NodePlan], name: str, retry: int) -> Iterator[str]:
    """Yield sessions between loopbacks, one with each neighbouring switch; none if EVPN uses the underlay's sessions.

    They depend on the underlay's routes, and so on its BFD. ``retry`` is the seconds between connection attempts.
    """
    overlay = topology.overlay
    if overlay is None or not overlay.design.of_loopbacks:
        return
    peers = _neighbours(topology, name)
    groups = {peer: _group(topology, name, peer) for peer in peers}
    for group in dict.fromkeys(groups.values()):
        yield f" neighbor {group} peer-group"
        yield f" neighbor {group} remote-as {'internal' if overlay.design is Design.IBGP else 'external'}"
        yield f" neighbor {group} timers connect {retry}"
        yield f" neighbor {group} update-source {plans[name].loopback4}"
        if overlay.design is Design.EBGP_MULTIHOP:
            yield f" neighbor {group} ebgp-multihop {_MULTIHOP}"
    for peer, group in groups.items():
        yield f" neighbor {plans[peer].loopback4} peer-group {group}"
        yield f" neighbor {plans[peer].loopback4} description {peer}"


def _neighbours(topology: Topology, name: str) -> list[str]:
    """Return the neighbouring switches of a switch, each once."""
    ends = (link.other(link.end_at(name)).node for link in topology.links_of(name))
    return [end for end in dict.fromkeys(ends) if topology.node(end).role.is_switch]


def _group(topology: Topology, name: str, peer: str) -> str:
    overlay = topology.overlay
    below = topology.node(peer).role.tier < topology.node(name).role.tier
    return _CLIENTS if overlay is not None and overlay.design is Design.IBGP and below else _OVERLAY


def policies(leaf: LeafOverlay | None) -> Iterator[str]:
    """Yield a route map for each tenant that leaks: it advertises only the tenant's own subnets by EVPN.

    Other leaves get the leaked subnets from their owner. The route map is rendered before its use: with a missing
    route map, bgpd would advertise everything until 5 s after it is defined.
    """
    for vrf in leaf.vrfs if leaf else ():
        outside = dict.fromkeys(prefix for each in _outside(leaf, vrf.name) for prefix in each.prefixes)
        for family, version in _FAMILIES.items() if vrf.leaks else ():
            name = f"{vrf.name}-{family}"
            word = "ip" if version == 4 else "ipv6"
            told = (each for each in (*vrf.subnets, *outside) if each.version == version)
            for number, subnet in enumerate(told, start=1):
                yield f"{word} prefix-list {name} seq {number} permit {subnet}"
            yield f"route-map {name} permit 10"
            yield f" match {word} address prefix-list {name}"
            yield "exit"


def bgp_family(topology: Topology, underlay: str, leaf: LeafOverlay | None, plan: NodePlan) -> Iterator[str]:
    """Yield the EVPN address family on the sessions that carry it; leaves with networks advertise all their VNIs.

    ``underlay`` is the peer group of the underlay's sessions.
    """
    overlay = topology.overlay
    if overlay is None:
        return
    name, groups = plan.node.name, [underlay]
    if overlay.design.of_loopbacks:
        groups = [*dict.fromkeys(_group(topology, name, peer) for peer in _neighbours(topology, name))]
    yield " !"
    yield " address-family l2vpn evpn"
    for group in groups:
        yield f"  neighbor {group} activate"
        if group == _CLIENTS:
            yield f"  neighbor {group} route-reflector-client"
    if leaf is not None:
        yield "  advertise-all-vni"
        for network in (each for each in leaf.networks if each.rd or each.rt):
            yield f"  vni {network.l2vni}"
            yield from _explicit(plan, network.rd, network.rt, "   ")
            yield "  exit-vni"
    yield " exit-address-family"


def _explicit(plan: NodePlan, rd: int, rt: str, indent: str) -> Iterator[str]:
    """Yield the route distinguisher (RFC 4364 section 4.2, type 1) and route targets, if they are set."""
    if rd:
        yield f"{indent}rd {plan.loopback4}:{rd}"
    if rt:
        yield f"{indent}route-target import {rt}"
        yield f"{indent}route-target export {rt}"


def _outside(leaf: LeafOverlay | None, tenant: str) -> list[External]:
    """Return the external routers that a leaf has sessions with in a tenant's VRF."""
    return [external for external in (leaf.externals if leaf else ()) if external.tenant == tenant]


def bgp_vrfs(topology: Topology, plan: NodePlan, leaf: LeafOverlay | None, paths: int) -> Iterator[str]:
    """Yield the BGP of routed tenants: their subnets as type-5 routes (RFC 9136), by ``paths`` paths at most."""
    asn = speaks_as(topology, plan)
    for vrf in leaf.vrfs if leaf else ():
        if vrf.l3vni:
            yield "!"
            yield f"router bgp {asn} vrf {vrf.name}"
            yield f" bgp router-id {plan.loopback4}"
            yield " no bgp ebgp-requires-policy"
            yield " no bgp default ipv4-unicast"
            yield " bgp bestpath as-path multipath-relax"
            peers = [(each, session.address.ip) for each in _outside(leaf, vrf.name) for session in each.sessions]
            for external, address in peers:
                yield from external_peer(str(address), external.asn, external.host)
            for family, version in _FAMILIES.items():
                yield " !"
                yield f" address-family {family} unicast"
                yield "  redistribute connected"
                yield from (f"  neighbor {peer} activate" for _, peer in peers if peer.version == version)
                yield f"  maximum-paths {paths}"
                if asn != plan.asn:
                    yield f"  maximum-paths ibgp {paths}"
                for other in vrf.leaks:
                    yield f"  import vrf {other}"
                yield " exit-address-family"
            yield " !"
            yield " address-family l2vpn evpn"
            yield from _explicit(plan, vrf.rd, vrf.rt, "  ")
            for family in _FAMILIES:
                chosen = f" route-map {vrf.name}-{family}" if vrf.leaks else ""
                yield f"  advertise {family} unicast{chosen}"
            yield " exit-address-family"
            yield "exit"
