"""Reachability by the plan of an overlay: the path of a packet through its bridges, tunnels and VRFs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface, IPv6Interface

from lab.model.addressing import NodePlan, plan_addresses
from lab.model.overlay.node_plan import GatewayInterface, InterfaceAddress, LeafOverlay, Vrf
from lab.model.overlay.plan import OverlayPlan, plan_overlay
from lab.model.topology import Topology
from lab.routing.wait.evpn_expectations import Floods, TenantRoutes, expected_overlay

NOT_AT_ALL = ""


@dataclass(frozen=True)
class Place:
    """Where a host's packets come to a leaf: its VLAN there."""

    leaf: str
    vlan: int


@dataclass(frozen=True)
class Fabric:
    """A topology with all that is computed of its overlay."""

    topology: Topology

    @cached_property
    def overlay(self) -> OverlayPlan:
        planned = plan_overlay(self.topology)
        assert planned is not None
        return planned

    @cached_property
    def nodes(self) -> dict[str, NodePlan]:
        return dict(plan_addresses(self.topology))

    @cached_property
    def floods(self) -> dict[str, Floods]:
        expected = expected_overlay(self.topology, self.nodes)
        return {leaf: each for leaf, all_of_it in expected.items() for each in all_of_it if isinstance(each, Floods)}

    @cached_property
    def routes(self) -> dict[str, TenantRoutes]:
        expected = expected_overlay(self.topology, self.nodes)
        return {
            leaf: each for leaf, all_of_it in expected.items() for each in all_of_it if isinstance(each, TenantRoutes)
        }

    def vtep(self, leaf: str) -> str:
        return str(self.nodes[leaf].vtep)

    def way(self, one: str, other: str) -> str:
        """How two hosts reach each other: the same there and back, or both; "" where one of the two does not."""
        there, back = self._one_way(one, other), self._one_way(other, one)
        if NOT_AT_ALL in {there, back}:
            return NOT_AT_ALL
        return there if there == back else f"{there} and {back}"

    def _one_way(self, one: str, other: str) -> str:
        """Of each IP version that both have, from each place of the one to each of the other."""
        found = {
            self._of_places(start, end, own, target)
            for start in self._places(one)
            for end in self._places(other)
            for own in self._addresses(one)
            for target in self._addresses(other)
            if own.address.version == target.address.version
        }
        return NOT_AT_ALL if NOT_AT_ALL in found else " or ".join(sorted(found))

    def _addresses(self, host: str) -> tuple[InterfaceAddress, ...]:
        (interface,) = self.overlay.hosts[host]
        return interface.addresses

    def _places(self, host: str) -> Iterator[Place]:
        for link in self.topology.links_of(host):
            port = link.other(link.end_at(host))
            leaf = self.overlay.leaves[port.node]
            names = {port.interface} | {bond.name for bond in leaf.bonds if port.interface in bond.members}
            yield from (Place(port.node, each.untagged) for each in leaf.ports if each.interface in names)

    def _of_places(self, start: Place, end: Place, own: InterfaceAddress, target: InterfaceAddress) -> str:
        if target.address.ip in own.address.network:
            return self._bridged(start, end)
        leaf = self.overlay.leaves[start.leaf]
        gateway = next((each for each in leaf.gateways if each.vlan == start.vlan), None)
        if gateway is None or own.gateway not in {address.ip for address in gateway.addresses}:
            return NOT_AT_ALL
        return self._routed(gateway.vrf, start, end, target.address)

    def _bridged(self, start: Place, end: Place) -> str:
        if start.leaf == end.leaf:
            return "bridged" if start.vlan == end.vlan else NOT_AT_ALL
        vnis = {self._vni_of(place) for place in (start, end)}
        if len(vnis) > 1:
            return NOT_AT_ALL
        (vni,) = vnis
        return f"bridged {vni}" if self._flood(vni, start.leaf, end.leaf) else NOT_AT_ALL

    def _vni_of(self, place: Place) -> int:
        return next(each.vni for each in self.overlay.leaves[place.leaf].tunnels if each.vlan == place.vlan)

    def _flood(self, vni: int, one: str, other: str) -> bool:
        """Whether each of two leaves floods to the other, or both to one group."""
        there, back = (self.floods[leaf].vteps.get(f"vni{vni}", frozenset()) for leaf in (one, other))
        tunnels = [each for leaf in (one, other) for each in self.overlay.leaves[leaf].tunnels if each.vni == vni]
        groups = {str(each.group) for each in tunnels if each.group is not None}
        return there == back == groups if groups else self.vtep(other) in there and self.vtep(one) in back

    def _routed(self, vrf: str, start: Place, end: Place, target: IPv4Interface | IPv6Interface) -> str:
        """By the VRF of a leaf: a subnet that it has itself, or a route that it must have got."""
        leaf = self.overlay.leaves[start.leaf]
        near = _gateway_to(leaf, vrf, target)
        if near is not None and start.leaf == end.leaf:
            return "routed" if near.vlan == end.vlan else NOT_AT_ALL
        if near is not None:  # the host's own route of type 2 has the tenant's VNI
            there = self._bridged(Place(start.leaf, near.vlan), end)
            return self._by_vni(_vrf(leaf, vrf).l3vni, start, end, target) if there else NOT_AT_ALL
        routes = self.routes.get(start.leaf)
        hops = frozenset() if routes is None else routes.vteps.get((vrf, str(target.network)), frozenset())
        if hops <= {each.name for each in leaf.vrfs} and len(hops) == 1:
            return self._routed(next(iter(hops)), start, end, target)
        return self._to_owner(vrf, start, end, target) if self.vtep(end.leaf) in hops else NOT_AT_ALL

    def _to_owner(self, vrf: str, start: Place, end: Place, target: IPv4Interface | IPv6Interface) -> str:
        """In the VNI of whose subnet it is: the tenant's own, or one's that leaks to it."""
        there = self.overlay.leaves[end.leaf]
        known = {vrf, *_vrf(self.overlay.leaves[start.leaf], vrf).leaks}
        owners = (each for each in there.vrfs if each.name in known)
        owner = next((each for each in owners if _gateway_to(there, each.name, target)), None)
        return NOT_AT_ALL if owner is None else self._by_vni(owner.l3vni, start, end, target)

    def _by_vni(self, vni: int, start: Place, end: Place, target: IPv4Interface | IPv6Interface) -> str:
        """Both leaves have it, and the far one hands it to the VLAN of the host."""
        leaf, there = (self.overlay.leaves[place.leaf] for place in (start, end))
        both = all(vni in {each.vni for each in own.tunnels} for own in (leaf, there))
        far = next((each.name for each in there.vrfs if each.l3vni == vni), "")
        gateway = _gateway_to(there, far, target)
        return f"routed {vni}" if both and gateway is not None and gateway.vlan == end.vlan else NOT_AT_ALL


def _vrf(leaf: LeafOverlay, name: str) -> Vrf:
    return next(each for each in leaf.vrfs if each.name == name)


def _gateway_to(leaf: LeafOverlay, vrf: str, target: IPv4Interface | IPv6Interface) -> GatewayInterface | None:
    """The interface of a VRF whose subnet an address is in."""
    own = (each for each in leaf.gateways if each.vrf == vrf)
    return next((each for each in own if any(target.ip in there.network for there in each.addresses)), None)
