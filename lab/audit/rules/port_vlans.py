"""Rules about VLANs.

A host is in the VLAN whose gateways are in its network, and its port in a bridge. Gateways have addresses, and a tree
has its root at the top.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from ipaddress import ip_interface
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, Difference, described
from lab.audit.objects.kernel_objects import AddressAudit, VlanAudit
from lab.audit.placement import is_of_most
from lab.audit.rules.address_rules import OF_ANY_VALUE
from lab.audit.rules.bridge_ports import vnis_of_tunnels
from lab.audit.rules.route_rules import gateways_of, ports_of
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.kernel_objects import InterfaceAudit, RouteAudit
    from lab.audit.placement import FabricRoles

_USUAL_PRIORITY: Final = "32768"
"""The default priority of a bridge (IEEE 802.1D-2004 table 17-2)."""
_OF_ANY_LINK: Final = ("fe80:", "ff00:")
"""The start of routes that each interface with IPv6 has."""
_UNTAGGED: Final = ("PVID", "Egress Untagged")


def of_vlans(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield switch ports in a VLAN with other networks than those of the host behind it, and ports in no VLAN.

    The right VLAN is the only one whose gateways are in the networks of the host. If that is known from one address
    only, the address can be the wrong one as well. Ports with tagged VLANs only are left out. A port in no VLAN, or
    that was removed from its bridge, can also have the VLAN of other hosts.
    """
    gateways = _networks_of_gateways(state, placement)
    ports = (*_bridged_ports(state, placement), *_ports_outside(state, placement))
    having = {port: _vlans_of(*port, state) for port in ports}
    others = _networks_of_hosts(having, state, placement)
    for (name, port), vlans in having.items():
        peer = placement.peers[name, port]
        own = [each for each in _addresses_behind((name, port), state, placement) if each.interface == peer.interface]
        mine = [ip_interface(each.address).network for each in own]
        pvid = next((each for each in vlans if "PVID" in each.flags), None)
        fits = [vlan for vlan, known in gateways.items() if any(map(known.__contains__, mine))]
        if not vlans and not fits:
            fits = [vlan for vlan, known in others.items() if any(map(known.__contains__, mine))]
        if len(fits) != 1 or (pvid is None and (vlans or not others)):
            continue
        if pvid is not None and (pvid.vlan not in gateways or pvid.vlan == fits[0]):
            continue
        right = VlanAudit(port, fits[0], _UNTAGGED)
        yield Difference.of(name, right, PRESENCE, ABSENT, described(right), RULE)
        if pvid is not None:
            yield Difference.of(name, pvid, PRESENCE, PRESENT, ABSENT, RULE)
            if len(mine) == 1:
                yield Difference.of(peer.node, own[0], "network", str(mine[0]), f"one of VLAN {pvid.vlan}", RULE)


def of_removed_ports(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield switch ports that belong to no bridge, although the host behind them is in the network of bridged ones.

    A routed port, beside bridged ones or not, has an address or a route to its host. A VLAN of a port, ``swp3.10``,
    can be in a bridge in its place.
    """
    for (name, _), (port, bridge) in _ports_outside(state, placement).items():
        yield Difference.of(name, port, "master", "none", bridge, RULE)


def _ports_outside(state: FabricAudit, placement: FabricRoles) -> dict[tuple[str, str], tuple[InterfaceAudit, str]]:
    """Return the ports that were removed from a bridge, by node and port, with the usual name of the bridge."""
    members = _bridged_ports(state, placement)
    networks = {network for slot in members for network in _networks_behind(slot, state, placement)}
    networks = networks.union(*_networks_of_gateways(state, placement).values())
    found: dict[tuple[str, str], tuple[InterfaceAudit, str]] = {}
    for name, node in state.nodes.items() if members else ():
        tagged = {each.name.partition(".")[0] for each in node.interfaces if each.master and "." in each.name}
        for each in node.interfaces:
            if each.master or each.name in tagged or not _is_to_a_host(name, each.name, placement):
                continue
            if _is_routed(each.name, node):
                continue
            if networks.intersection(_networks_behind((name, each.name), state, placement)):
                here = [bridge for (switch, _), bridge in members.items() if switch == name]
                found[name, each.name] = each, Counter(here or members.values()).most_common(1)[0][0]
    return found


def _bridged_ports(state: FabricAudit, placement: FabricRoles) -> dict[tuple[str, str], str]:
    """Return the bridge of each switch port to a host that is in one."""
    found: dict[tuple[str, str], str] = {}
    for name, node in state.nodes.items():
        bridges = {each.name for each in node.interfaces if each.kind == "bridge"}
        ports = [each for each in node.interfaces if _is_to_a_host(name, each.name, placement)]
        found |= {(name, each.name): each.master for each in ports if each.master in bridges}
    return found


def _is_routed(port: str, node: NodeAudit) -> bool:
    """Return whether a port or one of its VLANs has an address or a route. Link-local ones are of any interface."""
    addressed = {each.interface for each in node.addresses if each.scope != "link"}
    routed = {out for each in node.routes if not each.prefix.startswith(_OF_ANY_LINK) for out in ports_of(each)}
    return any(name == port or name.startswith(f"{port}.") for name in addressed | routed)


def _networks_behind(
    slot: tuple[str, str], state: FabricAudit, placement: FabricRoles, *, tagged: bool = True
) -> set[IPv4Network | IPv6Network]:
    """Return the networks of the host's interface behind a switch port, and of its VLANs if these are ``tagged``."""
    found = _addresses_behind(slot, state, placement)
    return {ip_interface(each.address).network for each in found if tagged or "." not in each.interface}


def _addresses_behind(slot: tuple[str, str], state: FabricAudit, placement: FabricRoles) -> list[AddressAudit]:
    """Return the addresses of the host's interface behind a switch port, and of its VLANs, like ``eth1.30``."""
    peer = placement.peers[slot]
    host = state.nodes.get(peer.node)
    own = [each for each in host.addresses if each.scope == "global"] if host is not None else []
    return [each for each in own if each.interface.split(".")[0] == peer.interface]


def of_gateway_addresses(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield gateways without an address of a version that most gateways of VLANs with hosts have.

    A VLAN without an address of that version at any of several gateways is like this by design.
    """
    slots: dict[tuple[str, str], set[int]] = {}
    tags: dict[tuple[str, str], int] = {}
    networks = _networks_of_gateways(state, placement)
    gateways: Counter[int] = Counter()
    for name, node in state.nodes.items():
        with_hosts = {each.vlan for each in node.vlans if _is_to_a_host(name, each.interface, placement)}
        for gateway in gateways_of(node) if placement.topology.node(name).role.is_switch else ():
            tag = int(gateway.options["id"])
            gateways[tag] += 1
            if tag in with_hosts and gateway.up:
                tags[name, gateway.name] = tag
                own = [each for each in node.addresses if each.interface == gateway.name and each.scope == "global"]
                slots[name, gateway.name] = {int(ip_interface(each.address).version) for each in own}
    for version in (4, 6):
        having = sum(version in found for found in slots.values())
        used = {tag for tag, known in networks.items() if any(each.version == version for each in known)}
        for (name, interface), found in slots.items() if is_of_most(having, len(slots)) else ():
            tag = tags[name, interface]
            if version not in found and (tag in used or gateways[tag] == 1):
                yield Difference(
                    node=name, kind="address", object=f"{OF_ANY_VALUE}{interface}", field=PRESENCE, value=ABSENT,
                    expected=f"{PRESENT}: an IPv{version} address", against=RULE, interface=interface,
                )  # fmt: skip


def of_anycast_gateways(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses in which gateways of one VNI differ, although they have one MAC (RFC 9135 section 4.1).

    A switch routes all packets to this MAC, and answers requests for its own addresses only. The right addresses are
    those of most of these gateways, and those that hosts of the VLAN have as their gateway. Switches with MACs of
    their own may have any addresses.
    """
    used = {hop for node in state.nodes.values() for route in node.routes for hop in _gateways_in(route)}
    shared: dict[tuple[str, str], dict[tuple[str, str], dict[str, AddressAudit]]] = defaultdict(dict)
    for name, node in state.nodes.items():
        vnis = _vnis_by_vlan(node) if placement.topology.node(name).role.is_switch else {}
        for gateway in gateways_of(node):
            if vni := vnis.get(int(gateway.options["id"])):
                own = [each for each in node.addresses if each.interface == gateway.name and each.scope == "global"]
                shared[vni, gateway.mac][name, gateway.name] = {each.address: each for each in own}
    for members in shared.values():
        having = Counter(address for own in members.values() for address in own)
        right = {each for each, count in having.items()
                 if is_of_most(count, len(members)) or each.partition("/")[0] in used}  # fmt: skip
        versions = {ip_interface(each).version for each in right}
        for (name, interface), mine in members.items() if len(members) > 1 else ():
            for address in sorted(right - mine.keys()):
                yield Difference.of(name, AddressAudit(interface, address, "global"), PRESENCE, ABSENT, PRESENT, RULE)
            for address in sorted(mine.keys() - right):
                if ip_interface(address).version in versions and having[address] == 1:
                    yield Difference.of(name, mine[address], PRESENCE, PRESENT, ABSENT, RULE)


def _vnis_by_vlan(node: NodeAudit) -> dict[int, str]:
    """Return the VNI of each VLAN of a bridge, which is that of the tunnel in it."""
    tunnels = vnis_of_tunnels(node)
    return {each.vlan: tunnels[each.interface] for each in node.vlans if each.interface in tunnels}


def _gateways_in(route: RouteAudit) -> Iterator[str]:
    """Yield the gateways of a default route."""
    words = [hop.split() for hop in route.next_hops] if route.prefix.endswith("/0") else []
    return (each[1] for each in words if each[:1] == ["via"] and len(each) > 1)


def of_roots(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield bridges that become the root of a spanning tree although no bridge of the top tier has such a priority.

    Then links between the tiers are blocked. Which bridges of the top tier are root and backup is a choice.
    """
    trees = {
        (name, each.name): each
        for name, node in state.nodes.items() if placement.topology.node(name).role.is_switch
        for each in node.interfaces
        if each.kind == "bridge" and each.options.get("stp_state") not in {None, "0"}
        and each.options.get("priority", "").isdigit()
    }  # fmt: skip
    tiers = {slot: placement.topology.node(slot[0]).role.tier for slot in trees}
    top = max(tiers.values(), default=0)
    first = min((int(each.options["priority"]) for slot, each in trees.items() if tiers[slot] == top), default=0)
    for slot, each in trees.items():
        if tiers[slot] < top and int(each.options["priority"]) < first:
            yield Difference.of(slot[0], each, "priority", each.options["priority"], _USUAL_PRIORITY, RULE)


def _networks_of_gateways(state: FabricAudit, placement: FabricRoles) -> dict[int, set[IPv4Network | IPv6Network]]:
    """Return the networks of the gateways of each VLAN, at any switch."""
    found: dict[int, set[IPv4Network | IPv6Network]] = defaultdict(set)
    for name, node in state.nodes.items():
        if not placement.topology.node(name).role.is_switch:
            continue
        tags = {each.name: int(each.options["id"]) for each in gateways_of(node)}
        for each in node.addresses:
            if each.scope == "global" and each.interface in tags:
                found[tags[each.interface]].add(ip_interface(each.address).network)
    return dict(found)


def _networks_of_hosts(
    having: Mapping[tuple[str, str], Sequence[VlanAudit]], state: FabricAudit, placement: FabricRoles
) -> dict[int, set[IPv4Network | IPv6Network]]:
    """Return the networks of the hosts whose ports are in a VLAN without a tag, for each of these VLANs."""
    found: dict[int, set[IPv4Network | IPv6Network]] = defaultdict(set)
    for slot, vlans in having.items():
        for each in vlans:
            if "PVID" in each.flags:
                found[each.vlan] |= _networks_behind(slot, state, placement, tagged=False)
    return dict(found)


def _is_to_a_host(node: str, port: str, placement: FabricRoles) -> bool:
    peer = placement.peers.get((node, port))
    here = placement.topology.node(node).role.is_switch
    return peer is not None and here and not placement.topology.node(peer.node).role.is_switch


def _vlans_of(node: str, port: str, state: FabricAudit) -> list[VlanAudit]:
    return [each for each in state.nodes[node].vlans if each.interface == port]
