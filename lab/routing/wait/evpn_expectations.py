"""State of the overlay that leaves need in their kernels once converged, computed from the topology alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.kernel.netlink.routes import ANYBODY, trees
from lab.model.overlay.intent import FLOOD_MAC, Design
from lab.model.overlay.plan import TERMINATION, plan_overlay
from lab.routing.paths.distance import distances
from lab.routing.wait.unconverged import RouteGap, compare

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lab.model.addressing import NodePlan
    from lab.model.overlay.intent import Address, Subnet
    from lab.model.overlay.node_plan import External, LeafOverlay
    from lab.model.overlay.plan import OverlayPlan
    from lab.model.topology import Topology
    from lab.routing.daemons import Router
    from lab.routing.wait.unconverged import RouteExpectation

Vteps = frozenset[str]
_ANY: Final = frozenset({"any other switch"})
_EVERYTHING = {"-4": "0.0.0.0/0", "-6": "::/0"}
"""The prefixes that iproute2 prints as ``default``."""
_MAPPED = "::ffff:"
"""The prefix of a VTEP's IPv4 address in IPv6 routes of a tenant (RFC 4291 section 2.5.5.2)."""


@dataclass(frozen=True)
class Floods:
    """Each L2VNI floods to every other leaf with its network, or to its group, and to nothing else."""

    vteps: Mapping[str, Vteps]
    """By VXLAN device."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the differences of the kernel's forwarding database."""
        said = json.loads(router.namespace.run(["bridge", "-json", "fdb", "show"]).stdout or "[]")
        actual: dict[str, set[str]] = {}
        for entry in said:
            if entry["mac"] == FLOOD_MAC and "dst" in entry:
                actual.setdefault(entry["ifname"], set()).add(entry["dst"])
        return compare(
            router.name, self.vteps, {name: frozenset(peers) for name, peers in actual.items()}, "tunnel to"
        )


@dataclass(frozen=True)
class Trees:
    """Multicast routes: packets to a group terminate here, and the leaf's own packets continue to another switch."""

    vtep: str
    uplinks: frozenset[str]
    groups: Mapping[str, bool]
    """Whether another leaf is in the group."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the groups whose multicast routes lack a branch; any uplink will do, as the hash selects it."""
        there = trees(router.namespace)
        wanted, actual = {}, {}
        for group, others in self.groups.items():
            wanted[f"tree to {group}"] = ending = frozenset({TERMINATION})
            actual[f"tree to {group}"] = ending & there.get((ANYBODY, group), frozenset())
            if others:
                goes_on = self.uplinks & there.get((self.vtep, group), frozenset())
                wanted[f"tree from {self.vtep} to {group}"] = _ANY
                actual[f"tree from {self.vtep} to {group}"] = _ANY if goes_on else frozenset()
        return compare(router.name, wanted, actual, "branch to")


@dataclass(frozen=True)
class Segments:
    """LACP uses all members of each bond, and FRR knows the other leaves of its segment."""

    members: Mapping[str, frozenset[str]]
    """By bond."""
    others: Mapping[str, Vteps]
    """The VTEPs of the other leaves, by bond."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the differences in bonds and in next hops of the forwarding database."""
        used: dict[str, set[str]] = {}
        for port in json.loads(router.namespace.run(["ip", "-json", "-details", "link", "show"]).stdout or "[]"):
            info = port.get("linkinfo", {})
            state = info.get("info_slave_data", {}).get("ad_actor_oper_port_state_str", ())
            if info.get("info_slave_kind") == "bond" and "distributing" in state and "defaulted" not in state:
                used.setdefault(port["master"], set()).add(port["ifname"])
        hops = json.loads(router.namespace.run(["ip", "-json", "nexthop", "show"]).stdout or "[]")
        known = frozenset(hop["gateway"] for hop in hops if "fdb" in hop and "gateway" in hop)
        told = {name: frozenset(members) for name, members in used.items()}
        return [
            *compare(router.name, self.members, told, "member"),
            *compare(
                router.name, self.others, {name: known & others for name, others in self.others.items()}, "leaf"
            ),
        ]


@dataclass(frozen=True)
class TenantRoutes:
    """Each tenant has a route to every subnet that is only on other leaves, with all of them as next hops.

    The same goes for subnets that other tenants leak to it, and for prefixes of external routers.
    """

    vteps: Mapping[tuple[str, str], Vteps]
    """Next hops by VRF and prefix; the other tenant's VRF for leaked subnets that the leaf itself has."""
    vrfs: Mapping[str, str]
    """VRF names by table, as iproute2 prints it."""

    def gaps(self, router: Router) -> list[RouteGap]:
        """Return the differences of the kernel's tables; routes to single hosts are ignored."""
        actual: dict[tuple[str, str], Vteps] = {}
        for family in ("-4", "-6"):
            words = ["ip", "-json", family, "route", "show", "table", "all", "protocol", "bgp"]
            for route in json.loads(router.namespace.run(words).stdout or "[]"):
                vrf = self.vrfs.get(str(route.get("table", "")))
                if vrf is not None:
                    hops = route.get("nexthops", [route])
                    gateways = frozenset(
                        str(hop.get("gateway") or hop.get("dev", "")).removeprefix(_MAPPED) for hop in hops
                    )
                    prefix = _EVERYTHING[family] if route["dst"] == "default" else route["dst"]
                    actual[vrf, prefix] = actual.get((vrf, prefix), frozenset()) | gateways
        wanted = {f"{prefix} of {vrf}": vteps for (vrf, prefix), vteps in self.vteps.items()}
        return compare(
            router.name, wanted, {f"{prefix} of {vrf}": hops for (vrf, prefix), hops in actual.items()}, "path by"
        )


def expected_overlay(topology: Topology, plan: Mapping[str, NodePlan]) -> dict[str, list[RouteExpectation]]:
    """Return the expectations of each leaf with networks; none without an overlay."""
    overlay = plan_overlay(topology)
    if overlay is None:
        return {}
    vteps = {leaf: str(plan[leaf].vtep) for leaf in overlay.leaves}
    return {name: _expected(topology, overlay, name, vteps, plan) for name in overlay.leaves}


def _expected(
    topology: Topology, overlay: OverlayPlan, name: str, vteps: Mapping[str, str], plan: Mapping[str, NodePlan]
) -> list[RouteExpectation]:
    leaf = overlay.leaves[name]
    on: dict[str, set[str]] = {}
    for other, networks in overlay.members.items():
        for network in networks:
            on.setdefault(network.name, set()).add(other)
    floods = {
        f"vni{network.l2vni}": _addresses(on[network.name] - {name}, vteps)
        if network.group is None
        else frozenset({str(network.group)})
        for network in leaf.networks
    }
    distance = _compared(topology, name)
    members = {key: _addresses(_nearest(there, distance), vteps) for key, there in on.items()}
    routes = {**dict(_outside(overlay, name, distance, vteps, plan)), **dict(_routes(overlay, leaf, members))}
    found: list[RouteExpectation] = [Floods(floods)]
    if groups := {str(net.group): len(on[net.name]) > 1 for net in leaf.networks if net.group is not None}:
        uplinks = frozenset(each.name for each in plan[name].interfaces.values() if each.borrowed is not None)
        found.append(Trees(vteps[name], uplinks, groups))
    if leaf.bonds:
        legs = {bond.name: frozenset(bond.members) for bond in leaf.bonds}
        found.append(Segments(legs, {bond.name: _addresses(bond.others, vteps) for bond in leaf.bonds}))
    if routes:
        found.append(TenantRoutes(routes, {str(vrf.table): vrf.name for vrf in leaf.vrfs}))
    return found


def _routes(
    overlay: OverlayPlan, leaf: LeafOverlay, members: Mapping[str, Vteps]
) -> Iterator[tuple[tuple[str, str], Vteps]]:
    """Yield VRF, prefix and next hops; ``members`` are the VTEPs of each network's nearest leaves."""
    own = {network.name for network in leaf.networks}
    for vrf in (each for each in leaf.vrfs if each.l3vni):
        for network in overlay.networks:
            subnets = [str(subnet) for subnet in network.subnets if network.gateway_of(subnet) is not None]
            leaked = network.tenant in vrf.leaks
            if network.name not in own and (leaked or network.tenant == vrf.name) and network.name in members:
                yield from (((vrf.name, subnet), members[network.name]) for subnet in subnets)
            elif network.name in own and leaked:
                yield from (((vrf.name, subnet), frozenset({network.tenant})) for subnet in subnets)


def _outside(
    overlay: OverlayPlan,
    name: str,
    distance: Mapping[str, int],
    vteps: Mapping[str, str],
    plan: Mapping[str, NodePlan],
) -> Iterator[tuple[tuple[str, str], Vteps]]:
    """Yield the prefixes of external routers, with their next hops.

    A border leaf uses its own external routers, and other leaves use the nearest border leaves. With one AS, too, a
    border leaf prefers eBGP routes (RFC 4271 section 9.1.2.2).
    """
    tenants = {vrf.name for vrf in overlay.leaves[name].vrfs}
    telling: dict[tuple[str, Subnet], list[External]] = {}
    for external in overlay.externals.values():
        for prefix in external.prefixes if external.tenant in tenants else ():
            telling.setdefault((external.tenant, prefix), []).append(external)
    for (tenant, prefix), routers in telling.items():
        own = frozenset(str(_near(each, prefix.version, plan)) for each in routers if each.leaf == name)
        yield (tenant, str(prefix)), own or _addresses(_nearest({each.leaf for each in routers}, distance), vteps)


def _compared(topology: Topology, name: str) -> Mapping[str, int]:
    """Return the distance of other leaves as a leaf's BGP compares their routes (RFC 4271 section 9.1.2.2 a and e).

    The distance is the AS path length or, within one AS, the IGP cost of the next hop. It is empty for iBGP over an
    eBGP underlay, which has no such cost.
    """
    overlay = topology.overlay
    if overlay is None or (overlay.design is Design.IBGP and not topology.routing.underlay.is_igp):
        return {}
    return distances(topology, name)


def _nearest(leaves: Collection[str], distance: Mapping[str, int]) -> list[str]:
    """Return the nearest leaves, whose routes BGP selects."""
    least = min(distance.get(leaf, 0) for leaf in leaves)
    return [leaf for leaf in leaves if distance.get(leaf, 0) == least]


def _near(external: External, version: int, plan: Mapping[str, NodePlan]) -> Address:
    """Return the next hop of a border leaf towards its external router: for IPv6 the link-local address."""
    if version == 6:
        return plan[external.host].interfaces[external.interface].link_local
    return next(session.address.ip for session in external.sessions if session.address.version == version)


def _addresses(leaves: Iterable[str], vteps: Mapping[str, str]) -> Vteps:
    return frozenset(vteps[leaf] for leaf in leaves)
