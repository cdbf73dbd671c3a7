"""Paths of packets between hosts in overlay networks, through tunnels, from each node's tables hop by hop.

At each leaf, the bridge's forwarding database maps a MAC to a port, to a tunnel, or to the leaf itself. In the last
case the tenant's routing table applies. The underlay forwards tunnelled packets by their outer header alone. Its UDP
source port is a hash of the inner flow (RFC 7348 section 5).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, ip_address
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel.netlink import bonding, flow_hash, neighbours
from lab.kernel.netlink.logical_links import VXLAN_PORT
from lab.kernel.process import tuning
from lab.model.qos.port import Trust
from lab.model.qos.presets import ROCE_DSCP
from lab.model.topology import Endpoint
from lab.routing.paths.switch_tables import SwitchTables
from lab.routing.paths.underlay_path import CIRCLE, MAX_HOPS, MAX_PATHS, Walker, see_routes
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.model.qos.port import NodeQos
    from lab.routing.paths.traffic_end import Station

_PORTS: Final = "net/ipv4/ip_local_port_range"
_EVPN: Final = "rocelab status --evpn shows the overlay, and rocelab diagnose --probe names the cause"


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer header of a packet in a tunnel."""

    vni: int
    src: str
    """The source VTEP."""
    dst: str
    sport: int | None
    """UDP source port; None if no flow is given."""
    dscp: int


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one table lookup at a node."""

    table: str
    """route, neighbour, FDB, next hops, VNI or bond."""
    said: str


@dataclass(frozen=True, slots=True)
class TunnelHop:
    """One node on a path, and the port by which the packet leaves it."""

    end: Endpoint
    looked: tuple[Looked, ...]
    """In the kernel's lookup order."""
    mac: str
    """The destination MAC of the frame on egress."""
    outer: Outer | None
    priority: int | None
    """The priority by the map of the ingress port; None without lossless ports."""
    queue: int | None


Hops = tuple[TunnelHop, ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """A packet under way: the tenant's frame, and its outer header inside a tunnel."""

    mac: str
    vlan: int
    outer: Outer | None = None
    priority: int | None = None
    looked: tuple[Looked, ...] = ()

    def after(self, table: str, said: str, **changes: Any) -> _Frame:
        """Return the frame with one more table lookup."""
        return replace(self, looked=(*self.looked, Looked(table, said)), **changes)


@dataclass(frozen=True)
class TunnelWalker(Walker):
    """Follow packets from ``src`` to ``dst``: those with UDP source port ``sport``, or of all flows."""

    qos: Mapping[str, NodeQos]
    """QoS by node; empty without lossless ports."""
    src: Station
    dst: Station
    sport: int | None
    _tables: dict[str, SwitchTables] = field(default_factory=dict)

    def paths(self) -> list[Hops]:
        """Return all paths that the tables allow, at most ``MAX_PATHS``; OperationFailed if one ends elsewhere."""
        return list(islice(self._from_host(), MAX_PATHS))

    def _from_host(self) -> Iterator[Hops]:
        node, target = self.src.place.end.node, self.dst.place.address
        route = self._ask(node, target, [str(target), "from", str(self.src.place.address)])
        if route.get("dev") != self.src.device:
            device = route.get("dev") or route.get("type")
            raise OperationFailed(f"{node} sends them to {device}, not {self.src.device}", see_routes(node))
        mac, frame = self._resolved(node, _gateway(route, str(target)), self.src.device, _Frame("", self.src.vlan))
        yield from self._leave((), self.src.place.end, replace(frame, mac=mac), mac)

    def _arrive(self, hops: Hops, at: Endpoint, frame: _Frame) -> Iterator[Hops]:
        if at.node == self.dst.place.end.node:
            yield hops
            return
        if len(hops) > MAX_HOPS:
            raise OperationFailed(f"packets to {self.dst.place.end} go in a circle at {at.node}", CIRCLE)
        if not self.topology.node(at.node).role.is_switch:
            raise OperationFailed(f"{hops[-1].end.node} sends them to {at.node}", _EVPN)
        frame = replace(frame, priority=self._class(at, frame), looked=())
        if frame.outer is not None:
            yield from self._forward(hops, at.node, frame, frame.outer, at.interface)
            return
        tables = self._of(at.node)
        vlan = frame.vlan or tables.pvid(tables.port_of(at.interface))
        yield from self._bridge(hops, at.node, vlan, frame)

    def _bridge(self, hops: Hops, node: str, vlan: int, frame: _Frame) -> Iterator[Hops]:
        tables = self._of(node)
        found = tables.behind(frame.mac, vlan)
        if found is None:
            raise OperationFailed(f"{node} does not know {frame.mac} in VLAN {vlan}, and floods", _EVPN)
        what = f"VLAN {vlan}, {frame.mac}"
        if found.own:
            yield from self._route(hops, node, vlan, frame.after("FDB", f"{what}: its own"))
        elif found.vtep:
            frame = frame.after("FDB", f"{what}: {found.device}, {found.vtep}")
            yield from self._encapsulate(hops, node, found.device, found.vtep, frame)
        elif found.group:
            device = f"{found.instead_of} is down, {found.device} for it" if found.instead_of else found.device
            frame = frame.after("FDB", f"{what}: {device}, next hops {found.group}")
            for vtep, said in self._vteps(node, found.group):
                onward = frame.after("next hops", said)
                yield from self._encapsulate(hops, node, found.device, vtep, onward)
        else:
            frame = frame.after("FDB", f"{what}: {found.device}", vlan=tables.tag(found.device, vlan))
            yield from self._leave(hops, Endpoint(node, found.device), frame, frame.mac)

    def _route(self, hops: Hops, node: str, vlan: int, frame: _Frame) -> Iterator[Hops]:
        """Route from one network of a tenant into another, or into the tenant's L3VNI."""
        tables, target = self._of(node), self.dst.place.address
        device = tables.vlan_device(vlan)
        if device is None:
            raise OperationFailed(f"{node} has no interface in VLAN {vlan} to route by", _EVPN)
        self._check_forwarding(node, device, target)
        vrf = tables.master(device)
        flow = ["from", str(self.src.place.address), "iif", device, *self._udp(self.sport, ROCEV2_PORT)]
        for hop, said in self._choices(node, str(target), ["vrf", vrf], flow):
            out = str(hop.get("dev", hop.get("type")))
            onto = tables.vlan_of(out)
            if not onto:
                raise OperationFailed(f"{vrf} of {node} sends them to {out}", _EVPN)
            routed = frame.after("route", f"{vrf}, {said}: {_gateway(hop, 'connected')}, {out}")
            mac, routed = self._resolved(node, _gateway(hop, str(target)), out, routed)
            yield from self._bridge(hops, node, onto, replace(routed, mac=mac))

    def _encapsulate(self, hops: Hops, node: str, device: str, vtep: str, frame: _Frame) -> Iterator[Hops]:
        tunnel = self._of(node).tunnel(device)
        dscp = ROCE_DSCP if tunnel.inherits else tunnel.tos >> 2
        outer = Outer(
            vni=tunnel.vni, src=tunnel.local, dst=vtep, sport=self._outer_port(node, tunnel.ports), dscp=dscp
        )
        said = f"{outer.vni}, {outer.src}:{outer.sport or '*'} > {outer.dst}:{VXLAN_PORT}, DSCP {dscp}"
        yield from self._forward(hops, node, frame.after("VNI", said, outer=outer), outer, "")

    def _forward(self, hops: Hops, node: str, frame: _Frame, outer: Outer, came: str) -> Iterator[Hops]:
        """Forward by the outer header alone: towards the VTEP, or decapsulate if the VTEP is here."""
        flow = ["from", outer.src, "iif", came, *self._udp(outer.sport, VXLAN_PORT)]
        for hop, said in self._choices(node, outer.dst, [], flow if came else outer):
            if hop.get("type") == "local":
                yield from self._decapsulate(hops, node, frame, outer)
                continue
            if came:
                self._check_forwarding(node, came, ip_address(outer.dst))
            end = self._end(node, hop)
            onward = frame.after("route", f"{said}: {_gateway(hop, 'connected')}, {end.interface}")
            mac, onward = self._resolved(node, _gateway(hop, outer.dst), end.interface, onward)
            yield from self._leave(hops, end, onward, mac)

    def _decapsulate(self, hops: Hops, node: str, frame: _Frame, outer: Outer) -> Iterator[Hops]:
        tables = self._of(node)
        device = tables.tunnel_device(outer.vni)
        if device is None:
            raise OperationFailed(f"{node} has no VNI {outer.vni}, and drops them", _EVPN)
        frame = frame.after("VNI", f"{outer.vni}: {device}", outer=None)
        yield from self._bridge(hops, node, tables.pvid(device), frame)

    def _vteps(self, node: str, group: int) -> Iterator[tuple[str, str]]:
        """Return the VTEPs that a packet may be sent to, each with its description; with a flow, only its own."""
        hops = self._of(node).next_hops(group)
        if not hops:
            raise OperationFailed(f"{node} has no next hop in group {group}, and drops them", _EVPN)
        places: Iterable[int] = range(len(hops))
        if self.sport is not None:
            places = [flow_hash.member_of(self._inner_hash(), [hop.weight for hop in hops])]
        return ((hops[place].vtep, f"{hops[place].vtep}, 1 of {len(hops)}") for place in places)

    def _leave(self, hops: Hops, end: Endpoint, frame: _Frame, mac: str) -> Iterator[Hops]:
        for leg, onward in self._legs(end, frame):
            priority, queue = frame.priority, None
            if priority is None:  # the source has no ingress port, so the egress port classifies
                priority = self._class(leg, frame)
            if priority is not None:
                queue = self.qos[leg.node].ports[leg.interface].priority_to_queue[priority]
            hop = TunnelHop(end=leg, looked=onward.looked, mac=mac, outer=frame.outer, priority=priority, queue=queue)
            yield from self._arrive((*hops, hop), self._far(leg), frame)

    def _legs(self, end: Endpoint, frame: _Frame) -> Iterator[tuple[Endpoint, _Frame]]:
        """Yield a link's end, or the members of a bond that a packet may leave by; with a flow, only its own.

        Only the hash of addresses and ports is modelled. With other hash policies, every member may be used.
        """
        if any(end in link.ends for link in self.topology.links_of(end.node)):
            yield end, frame
            return
        tables = self._of(end.node)
        legs, policy = tables.legs(end.interface), tables.policy(end.interface)
        if not legs:
            raise OperationFailed(f"{end} has no leg that it sends by", "rocelab status shows its links")
        said = f"{end.interface}, {policy}: {{}}, 1 of {len(legs)}"
        if self.sport is not None and policy == bonding.BY_PORTS:
            chosen = bonding.hash_of(self.src.place.address, self.dst.place.address, self.sport, ROCEV2_PORT)
            legs = [legs[chosen % len(legs)]]
        for leg in legs:
            yield Endpoint(end.node, leg), frame.after("bond", said.format(leg))

    def _choices(
        self, node: str, to: str, table: list[str], flow: list[str] | Outer
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """Return the next hops that a packet may take, each with its matching route; with a flow, only its own.

        A list as ``flow`` holds arguments of ``ip route get``, for forwarded packets. An outer header is for packets
        that the node itself sends.
        """
        address = ip_address(to)
        route = self._ask(node, address, ["fibmatch", to, *table])
        hops = route.get("nexthops", [route])
        prefix = f"{route.get('dst', to)}"
        if len(hops) > 1:
            prefix += f", 1 of {len(hops)}"
        if len(hops) > 1 and self.sport is not None:
            hops = (
                self._sent(node, hops, flow) if isinstance(flow, Outer) else [self._ask(node, address, [to, *flow])]
            )
        return ((hop, prefix) for hop in hops)

    def _sent(self, node: str, hops: list[dict[str, Any]], outer: Outer) -> list[dict[str, Any]]:
        """Return the next hop by which a node sends a packet that it has encapsulated."""
        src, dst, sport = IPv4Address(outer.src), IPv4Address(outer.dst), outer.sport or 0
        uplink = self.inside(node).inside(lambda: flow_hash.uplink_of(src, dst, sport, VXLAN_PORT))
        found = [hop for hop in hops if self._of(node).index(str(hop.get("dev"))) == uplink]
        if not found:
            raise OperationFailed(f"{node} has no route to {dst} that it would take", see_routes(node))
        return found

    def _resolved(self, node: str, address: str, device: str, frame: _Frame) -> tuple[str, _Frame]:
        mac = neighbours.resolve(self.inside(node), device, address)
        return mac, frame.after("neighbour", f"{address}: {mac}")

    def _outer_port(self, node: str, ports: tuple[int, int]) -> int | None:
        """Return the UDP source port that the tunnel device at ``node`` derives from the inner flow."""
        if self.sport is None:
            return None
        if ports[0] >= ports[1]:
            said = self.inside(node).inside(lambda: tuning.read_sysctls([_PORTS]))[_PORTS]
            low, high = map(int, said.split())
            ports = low, high
        return flow_hash.outer_port(self._inner_hash(), *ports, last=flow_hash.has_last_port())

    def _inner_hash(self) -> int:
        """Return this kernel's hash of the inner flow."""
        flow = self.src.place.address, self.dst.place.address
        return flow_hash.hash_of(flow_hash.udp_frame(*flow, self.sport or 0, ROCEV2_PORT))

    def _class(self, at: Endpoint, frame: _Frame) -> int | None:
        """Return the priority that a port assigns, by the headers it can see."""
        if not self.qos:
            return None
        port = self.qos[at.node].ports[at.interface]
        if port.trust is Trust.PCP:
            return port.pcp_to_priority[0]
        return port.dscp_to_priority[frame.outer.dscp if frame.outer else ROCE_DSCP]

    def _of(self, node: str) -> SwitchTables:
        if node not in self._tables:
            self._tables[node] = SwitchTables(node, self.inside(node))
        return self._tables[node]

    @staticmethod
    def _udp(sport: int | None, dport: int) -> list[str]:
        return ["ipproto", "udp", "sport", str(sport), "dport", str(dport)]


def _gateway(hop: Mapping[str, Any], otherwise: str) -> str:
    """Return a next hop's address, which may be IPv6 for an IPv4 route (RFC 8950)."""
    return str(hop.get("gateway") or hop.get("via", {}).get("host") or otherwise)
