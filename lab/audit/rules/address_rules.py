"""Rules about addresses: one owner of each, MACs of the other end, and unique MACs and router IDs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import ip_interface
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lab.audit.difference import ABSENT, PRESENCE, PRESENT, UNLIKE, Difference
from lab.audit.objects.kernel_objects import AddressAudit, NeighbourAudit
from lab.audit.objects.routing_objects import MAPPED
from lab.audit.placement import FEWEST, is_of_most
from lab.audit.rules.route_widths import RULE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.audit.objects.kernel_objects import InterfaceAudit
    from lab.audit.objects.routing_objects import FrrLineAudit
    from lab.audit.placement import FabricRoles

_ROUTER_ID: Final = re.compile(
    r"^(?:.* / )?(?:((?:bgp|ospf|ospf6|ip) router-id|router-id) (?=(\S+)$)"
    r"|(net) \S+?\.(?=(\w{4}\.\w{4}\.\w{4})\.00$))"
)
"""A line of FRR's configuration with a router ID, or with a NET, which contains the system ID of IS-IS."""


_NO_MAC: Final = "00:00:00:00:00:00"
"""The MAC of a loopback."""
_LOOPBACK: Final = " lo"
"""The end of the role of loopbacks."""
PREFIX_LENGTH: Final = "prefix length"
OF_ANY_VALUE: Final = "address "
"""The object of a difference before the name of an interface that lacks an address, which can be any."""


@dataclass(frozen=True)
class ProxiedAddresses:
    """The addresses of others that nodes answer for, by the role of the node's port and the tier of the owner."""

    state: FabricAudit
    placement: FabricRoles

    def unusual(self, node: NodeAudit) -> Iterator[NeighbourAudit]:
        """Yield those of a node that most nodes of its tier do not have alike: those are intended."""
        tier = self.placement.roles(node.name, "")[0]
        for each, key in self._of_node(node):
            if not is_of_most(self._having[tier, *key], self._tiers[tier]):
                yield each

    def macs_for(self, address: str) -> tuple[str, ...]:
        """Return the MACs of the interfaces with an address, and then of others that may answer for it.

        These are of the same node, and of switches if it is a host's. Empty if no node has the address.
        """
        owners = [name for name in self.state.nodes if address in self._addresses[name]]
        own = {
            (name, each.interface) for name in owners for each in self.state.nodes[name].addresses
            if each.address.partition("/")[0] == address
        }  # fmt: skip
        hosts = all(not self.placement.topology.node(name).role.is_switch for name in owners)
        switches = {each.name for each in self.placement.topology.switches} if owners and hosts else set()
        ports = [(name, each) for name, node in self.state.nodes.items() for each in node.interfaces if each.mac]
        found = [each.mac for name, each in ports if (name, each.name) in own]
        found += [each.mac for name, each in ports if name in owners or name in switches]
        return tuple(dict.fromkeys(each for each in found if each != _NO_MAC))

    @cached_property
    def _addresses(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(node.bare_addresses()) for name, node in self.state.nodes.items()}

    def _of_node(self, node: NodeAudit) -> Iterator[tuple[NeighbourAudit, tuple[str, str]]]:
        for each in node.neighbours:
            if each.proxy and each.address in self._owners:
                port = self.placement.roles(node.name, each.interface)[0]
                yield each, (port, self._owners[each.address])

    @cached_property
    def _owners(self) -> dict[str, str]:
        """The tier of the owner of each address."""
        return {
            address: self.placement.roles(name, "")[0]
            for name, node in self.state.nodes.items()
            for address in node.bare_addresses()
        }

    @cached_property
    def _tiers(self) -> Counter[str]:
        return Counter(self.placement.roles(name, "")[0] for name in self.state.nodes)

    @cached_property
    def _having(self) -> Counter[tuple[str, str, str]]:
        """The number of nodes of a tier that answer for addresses of a tier at ports of a role."""
        found: Counter[tuple[str, str, str]] = Counter()
        for name, node in self.state.nodes.items():
            found.update({(self.placement.roles(name, "")[0], *key) for _, key in self._of_node(node)})
        return found


def of_neighbours(
    node: NodeAudit, state: FabricAudit, placement: FabricRoles, proxied: ProxiedAddresses
) -> Iterator[Difference]:
    """Yield neighbours on a port whose MAC no interface of the other end has, and unusual addresses of a proxy.

    So are permanent entries for nodes behind a bridge or a tunnel. Switches may answer for addresses of hosts.
    """
    for each in proxied.unusual(node):
        yield Difference.of(node.name, each, PRESENCE, PRESENT, ABSENT, RULE)
    for each in node.neighbours:
        peer = placement.peers.get((node.name, each.interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        known = each.address == MAPPED or (there is not None and each.address in there.bare_addresses())
        if each.mac and there is not None and known and each.mac not in {port.mac for port in there.interfaces}:
            expected = next((port.mac for port in there.interfaces if peer and port.name == peer.interface), "")
            yield Difference.of(node.name, each, "mac", each.mac, expected or ABSENT, RULE)
        elif each.mac and each.permanent and not each.proxy and not known:
            macs = proxied.macs_for(each.address)
            if macs and each.mac not in macs:
                yield Difference.of(node.name, each, "mac", each.mac, macs[0], RULE)


def of_mapped_gateways(node: NodeAudit, state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield ports at which FRR's gateway of routes has no MAC: no node has that address to answer ARP requests."""
    hops = [hop.split() for route in node.routes for hop in route.next_hops]
    used = {each[3] for each in hops if each[:3] == ["via", MAPPED, "dev"] and not {"dead", "linkdown"} & {*each}}
    known = {each.interface for each in node.neighbours if each.address == MAPPED and each.mac}
    for interface in sorted(used - known):
        peer = placement.peers.get((node.name, interface))
        there = state.nodes.get(peer.node) if peer is not None else None
        ports = there.interfaces if there is not None and MAPPED not in there.bare_addresses() else ()
        mac = next((port.mac for port in ports if peer is not None and port.name == peer.interface), "")
        if mac:
            entry = NeighbourAudit(interface, MAPPED, "", permanent=True, state="")
            yield Difference.of(node.name, entry, PRESENCE, ABSENT, f"{PRESENT}: mac {mac}", RULE)


def of_unused_addresses(node: NodeAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses of ports that the kernel does not use: duplicates, and deprecated ones of IPv4 (ip-address(8)).

    IPv6 hosts have deprecated addresses whenever their network is renumbered (RFC 4862 section 5.5.4).
    """
    for each in node.addresses:
        unused = "dadfailed" in each.flags or ("deprecated" in each.flags and ":" not in each.address)
        if unused and (each.interface == "lo" or (node.name, each.interface) in placement.peers):
            yield Difference.of(node.name, each, "flags", ", ".join(each.flags), "none", RULE)


def of_missing_addresses(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield loopbacks and ports without an address, of a version and scope that most of their role have one of.

    Unnumbered BGP needs link-local addresses. Without that of its loopback, management and tunnels of a node do not
    work. Ports that are down, in a bridge or bond, or without IPv6 have none. Those of a VLAN on a port are enough.
    A whole VLAN may have no addresses of a version, like a tenant without IPv6. Two of three loopbacks are most. If
    the other end of a link shows which address is missing, it is enough that half of the role have one.
    """
    having: dict[tuple[str, int, str], set[tuple[str, str]]] = defaultdict(set)
    slots = dict(_addressed_slots(state, placement))
    of_links = _of_links_of_two(slots, state, placement)
    for ((name, interface), _), address in of_links.items():
        missing = AddressAudit(interface, address, "global")
        yield Difference.of(name, missing, PRESENCE, ABSENT, PRESENT, RULE)
    few = {role for role, count in Counter(slots.values()).items() if count < FEWEST}
    wide = {slot: placement.roles(*slot)[1] if role in few else role for slot, role in slots.items()}
    for name, node in state.nodes.items():
        for each in (each for each in node.addresses if (name, each.interface) in slots):
            slot, family = (name, each.interface), ip_interface(each.address).version
            having[(wide if each.scope == "link" else slots)[slot], family, each.scope].add(slot)
    in_vlan: dict[int, set[tuple[str, str]]] = defaultdict(set)
    vlans = {slot: _vlan_of(*slot, state, placement) for slot in slots}
    for slot, vlan in vlans.items():
        in_vlan[vlan].add(slot)
    for (role, version, scope), found in having.items():
        members = [slot for slot, mine in (wide if scope == "link" else slots).items() if mine == role]
        loopbacks = role.endswith(_LOOPBACK) and len(members) >= FEWEST and 2 * len(found) > len(members)
        for slot in members if loopbacks or is_of_most(len(found), len(members)) else ():
            others = in_vlan[vlans[slot]] - {slot} if vlans[slot] else set()
            if slot in found or (others and not others & found):
                continue
            if scope == "global" and (slot, version) in of_links:
                continue
            if not (version == 6 and _is_without_ipv6(*slot, state)):
                kind = "a link-local" if scope == "link" else "an"
                yield Difference(
                    node=slot[0], kind="address", object=f"{OF_ANY_VALUE}{slot[1]}", field=PRESENCE, value=ABSENT,
                    expected=f"{PRESENT}: {kind} IPv{version} address", against=RULE, interface=slot[1],
                )  # fmt: skip


def _of_links_of_two(
    slots: Mapping[tuple[str, str], str], state: FabricAudit, placement: FabricRoles
) -> dict[tuple[tuple[str, str], int], str]:
    """Return the missing address of ports without one of a version, whose peer is in a network for two of it.

    RFC 3021 and RFC 6164 have such networks. No node has the address, or answers for it. If more than half of a role
    lack theirs, that is by design.
    """
    taken = {address for node in state.nodes.values() for address in node.bare_addresses()}
    taken |= {each.address for node in state.nodes.values() for each in node.neighbours if each.proxy}
    found: dict[tuple[tuple[str, str], int], str] = {}
    for slot in slots:
        peer = placement.peers.get(slot)
        there = state.nodes[peer.node].addresses if peer is not None and peer.node in state.nodes else ()
        mine = [each for each in state.nodes[slot[0]].addresses if each.interface == slot[1]]
        own = {ip_interface(each.address).version for each in mine if each.scope == "global"}
        for each in () if _answers_for_others(*slot, state) else there:
            network = ip_interface(each.address).network
            ours = peer is not None and each.interface == peer.interface and network.version not in own
            if ours and network.num_addresses == 2:
                (other,) = {*map(str, network)} - {each.address.partition("/")[0]}
                if other not in taken:
                    found[slot, network.version] = f"{other}/{network.prefixlen}"
    members = Counter(slots.values())
    lacking = Counter((slots[slot], version) for slot, version in found)
    return {key: each for key, each in found.items() if 2 * lacking[slots[key[0]], key[1]] <= members[slots[key[0]]]}


def _answers_for_others(node: str, interface: str, state: FabricAudit) -> bool:
    names = {f"net.ipv4.conf.{each}.proxy_arp" for each in (interface, "all")}
    return any(each.name in names and each.value == "1" for each in state.nodes[node].sysctls)


def of_fewer_addresses(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield loopbacks with an address, but fewer of a version than most of their tier have: others lost routes to it.

    A node can have more than its siblings by intent, for example that of a service.
    """
    tiers: dict[str, dict[str, Counter[int]]] = defaultdict(dict)
    for name, node in state.nodes.items():
        own = (each for each in node.addresses if each.interface == "lo" and each.scope == "global")
        versions = Counter(int(ip_interface(each.address).version) for each in own)
        tiers[placement.roles(name, "")[0]][name] = versions
    for members in tiers.values():
        for version in (4, 6):
            usual, count = Counter(each[version] for each in members.values()).most_common(1)[0]
            fewer = [name for name, each in members.items() if 0 < each[version] < usual]
            for name in fewer if is_of_most(count, len(members)) else ():
                yield Difference(
                    node=name, kind="address", object=f"{OF_ANY_VALUE}lo", field=f"IPv{version} addresses",
                    value=str(members[name][version]), expected=str(usual), against=RULE, interface="lo",
                )  # fmt: skip


def of_prefix_lengths(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses of hosts whose prefix length is another one than that of most addresses in their VLAN.

    The gateways of the VLAN count, too. Only networks that overlap are compared: a VLAN can have several subnets. A
    further address of its own, like that of a service, can be a single one. If most hosts of the VLAN have single
    addresses, they have them by design, with any length at their gateway.
    """
    in_vlan: dict[int, list[tuple[str, AddressAudit]]] = defaultdict(list)
    for name, node in state.nodes.items():
        tags = {each.name: each.options.get("id", "") for each in node.interfaces if each.kind == "vlan"}
        switch = placement.topology.node(name).role.is_switch
        for each in (each for each in node.addresses if each.scope == "global"):
            tag = tags.get(each.interface, "") if switch else ""
            vlan = int(tag) if tag.isdigit() else 0 if switch else _vlan_of(name, each.interface, state, placement)
            if vlan:
                in_vlan[vlan].append((name, each))
    for found in in_vlan.values():
        networks = [(name, each, ip_interface(each.address).network) for name, each in found]
        single = _versions_with_single_addresses(found, placement)
        for name, each, network in networks:
            lengths = Counter(
                other.prefixlen for _, _, other in networks
                if other.version == network.version and other.overlaps(network)
            )  # fmt: skip
            usual, count = lengths.most_common(1)[0]
            further = network.prefixlen == network.max_prefixlen and any(
                own == name and other != network and other.overlaps(network)
                for own, _, other in networks
                if other.version == network.version
            )
            if network.version in single or usual == network.prefixlen or further:
                continue
            if is_of_most(count, lengths.total()):
                yield Difference.of(name, each, PREFIX_LENGTH, str(network.prefixlen), str(usual), RULE)


def _versions_with_single_addresses(
    found: Iterable[tuple[str, AddressAudit]], placement: FabricRoles
) -> frozenset[int]:
    """Return the IP versions with single addresses only at most hosts, if there are at least two hosts."""
    single: dict[int, dict[str, bool]] = {4: {}, 6: {}}
    for name, each in found:
        if not placement.topology.node(name).role.is_switch:
            network = ip_interface(each.address).network
            before = single[network.version].get(name, True)
            single[network.version][name] = before and network.prefixlen == network.max_prefixlen
    return frozenset(
        version for version, hosts in single.items() if len(hosts) > 1 and 2 * sum(hosts.values()) > len(hosts)
    )


def _addressed_slots(state: FabricAudit, placement: FabricRoles) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield loopbacks, as node and interface, and ports that are up, each with its role.

    Ports in a bridge or bond, and those with addresses on their VLANs, need none of their own.
    """
    for name, node in state.nodes.items():
        yield (name, "lo"), placement.roles(name, "lo")[1]
        for each in node.interfaces:
            tagged = any(other.interface.startswith(f"{each.name}.") for other in node.addresses)
            if (name, each.name) in placement.peers and each.up and each.carrier and not (each.master or tagged):
                yield (name, each.name), placement.roles(name, each.name)[0]


def _is_without_ipv6(node: str, interface: str, state: FabricAudit) -> bool:
    names = {f"net.ipv6.conf.{each}.disable_ipv6" for each in (interface, "all")}
    return any(each.name in names and each.value == "1" for each in state.nodes[node].sysctls)


def of_macs(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield MACs that cabled ports of several nodes have: a bridge between them moves the MAC to and fro.

    Most nodes of a tier have one by intent, like that of an anycast gateway (RFC 9135 section 4.1).
    """
    having: dict[str, list[tuple[str, InterfaceAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.interfaces:
            if each.mac and (node.name, each.name) in placement.peers:
                having[each.mac].append((node.name, each))
    for mac, ports in having.items():
        names = dict.fromkeys(name for name, _ in ports)
        for name, port in ports if len(names) > 1 and not _is_usual(names, state, placement) else ():
            others = ", ".join(other for other in names if other != name)
            yield Difference.of(name, port, "mac", mac, f"{UNLIKE}{others}", RULE)


def _is_usual(names: Collection[str], state: FabricAudit, placement: FabricRoles) -> bool:
    """Return whether some nodes are most nodes of one tier: what these have in common is intended."""
    tiers = Counter(placement.roles(name, "")[0] for name in state.nodes)
    found = {placement.roles(name, "")[0] for name in names}
    return len(found) == 1 and is_of_most(len(names), tiers[found.pop()])


def of_router_ids(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield router IDs that several nodes have in the same protocol and VRF.

    By RFC 2328 section 1.2, RFC 6286, and ISO 10589 section 7.1 for system IDs. VRFs of one name need not be
    connected: there most nodes of a tier have one by intent.
    """
    having: dict[tuple[str, str], list[tuple[str, FrrLineAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.frr:
            if found := _ROUTER_ID.search(each.line):
                started = each.line.split()
                vrf = next((name for kind, name in pairwise(started) if kind in {"vrf", "view"}), "")
                protocol, number = found[1] or found[3], found[2] or found[4]
                having[f"{protocol} {vrf}", number].append((node.name, each))
    for (protocol, _), lines in having.items():
        names = dict.fromkeys(name for name, _ in lines)
        intended = not protocol.endswith(" ") and _is_usual(names, state, placement)
        for name, each in lines if len(names) > 1 and not intended else ():
            start, _, value = each.line.rpartition(" ")
            others = ", ".join(other for other in names if other != name)
            yield Difference.of(name, replace(each, line=start), "value", value, f"{UNLIKE}{others}", RULE)


def of_owners(state: FabricAudit, placement: FabricRoles) -> Iterator[Difference]:
    """Yield addresses of several nodes. A gateway that several switches share is on an interface without a cable.

    Hosts in different VLANs may have the same address: tenants can use the same subnets. If only one of the owners
    has it in the network of its link, the others are wrong. Addresses of anycast are left out.
    """
    owners: dict[str, list[tuple[str, AddressAudit]]] = defaultdict(list)
    for node in state.nodes.values():
        for each in node.addresses:
            shared = each.interface != "lo" and (node.name, each.interface) not in placement.peers
            if each.scope == "global" and not (shared and placement.topology.node(node.name).role.is_switch):
                owners[each.address.partition("/")[0]].append((node.name, each))
    unique = _unique_loopbacks(owners, state)
    for found in (each for every in owners.values() for each in _of_one_vlan(every, state, placement)):
        names = dict.fromkeys(name for name, _ in found)
        if len(names) > 1 and not _is_anycast(found, unique, placement):
            linked = [each for each in found if _is_in_a_link_s_network(*each, state, placement)]
            owner = linked[0][0] if len(linked) == 1 else "one node"
            for name, address in [each for each in found if each not in linked] if len(linked) == 1 else found:
                yield Difference.of(name, address, "owner", ", ".join(names), owner, RULE)


def _unique_loopbacks(
    owners: Mapping[str, Sequence[tuple[str, AddressAudit]]], state: FabricAudit
) -> dict[int, Counter[str]]:
    """Return the number of addresses in each node's loopback that no other node has, by IP version."""
    found = {version: Counter(dict.fromkeys(state.nodes, 0)) for version in (4, 6)}
    for address, having in owners.items():
        names = {name for name, _ in having}
        if len(names) == 1 and any(each.interface == "lo" for _, each in having):
            found[ip_interface(address).version].update(names)
    return found


def _is_anycast(
    found: Sequence[tuple[str, AddressAudit]], unique: Mapping[int, Counter[str]], placement: FabricRoles
) -> bool:
    """Return whether several nodes of a tier have an address by intent, in their loopbacks (RFC 4786).

    None of them lacks an address of its own: a node with another one's address has fewer of these than its siblings,
    or that other one has. Siblings that are no owners show how many are usual, unless most of them are owners.
    """
    if any(each.interface != "lo" for _, each in found):
        return False
    own = unique[ip_interface(found[0][1].address).version]
    owners = {name for name, _ in found}
    roles = {placement.roles(name, "")[0] for name in owners}
    tier = [name for name in own if placement.roles(name, "")[0] in roles]
    shown = tier if is_of_most(len(owners), len(tier)) else [name for name in tier if name not in owners]
    counts = Counter(own[name] for name in shown or tier)
    usual = max(number for number, having in counts.items() if having == max(counts.values()))
    return len(roles) == 1 and len(tier) >= FEWEST and all(own[name] >= usual for name in owners)


def _of_one_vlan(
    found: list[tuple[str, AddressAudit]], state: FabricAudit, placement: FabricRoles
) -> Iterator[list[tuple[str, AddressAudit]]]:
    """Yield the owners in each VLAN, with those that are in none."""
    if len(found) < 2:
        return
    vlans = [_vlan_of(name, each.interface, state, placement) for name, each in found]
    for vlan in dict.fromkeys(filter(None, vlans)) or [0]:
        yield [each for each, its in zip(found, vlans, strict=True) if its in {vlan, 0}]


def _vlan_of(node: str, interface: str, state: FabricAudit, placement: FabricRoles) -> int:
    """Return the VLAN of a host's interface: of its name, like ``eth1.30``, or of the switch port; 0 for none."""
    port, _, tag = interface.partition(".")
    peer = placement.peers.get((node, port))
    there = state.nodes.get(peer.node) if peer is not None else None
    if peer is None or there is None:
        return 0
    if tag.isdigit():
        return int(tag)
    return next((each.vlan for each in there.vlans if each.interface == peer.interface and "PVID" in each.flags), 0)


def _is_in_a_link_s_network(name: str, address: AddressAudit, state: FabricAudit, placement: FabricRoles) -> bool:
    """Return whether the other end of an address's link has an address in the same network."""
    peer = placement.peers.get((name, address.interface))
    there = state.nodes.get(peer.node) if peer is not None else None
    if peer is None or there is None:
        return False
    network = ip_interface(address.address).network
    return any(
        ip_interface(each.address).network == network
        for each in there.addresses
        if each.interface == peer.interface and each.scope == "global"
    )
