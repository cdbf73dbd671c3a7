"""Symptoms of addresses, from IP stacks and ARP: wrong MACs, networks, gateways and routes."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from lab.audit.objects.kernel_objects import DROPPING
from lab.audit.placement import FEWEST
from lab.diagnose.ip_stacks import DEFAULTS
from lab.diagnose.symptom import Evidence, Sign
from lab.diagnose.symptoms.crossed_cables import crossed_cables
from lab.diagnose.symptoms.probes import pinging

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lab.diagnose.facts import PortFacts, Ran, WindowFacts
    from lab.diagnose.ip_stacks import Stack, StackRoute

_SMALL: Final = 1024
"""Octets of a ping that fits every link: IPv6 requires an MTU of 1280 (RFC 8200 section 5)."""
_THROW: Final = "throw"
"""The type of routes that end the lookup of a table (ip-route(8)): another table can have a route."""
_ISOLATED: Final = 0.6
"""The weight of routes that reject packets in both directions, as between tenants."""


def sends_to_another_mac(facts: WindowFacts) -> Iterator[Sign]:
    """A node's neighbour entry has a MAC that neither ARP nor the NIC at the other end of the cable has.

    The two ends of a cable that is in another port than planned are correct neighbours.
    """
    crossed = {end for cable in crossed_cables(facts) for end in (cable.port, cable.other_end)}
    answers = {(each.port, each.address): each.macs for each in facts.asked if each.macs}
    for node, stack in facts.stacks.items():
        for (interface, address), mac in stack.neighbours.items():
            port = f"{node}:{interface}"
            real = answers.get((port, address)) or _mac(facts, facts.peer(port))
            if real and mac not in real and port not in crossed:
                says = f"sends packets for {address} to {mac}, but its neighbour has {' and '.join(sorted(real))}"
                yield Sign(port, (Evidence(says=says, of=port, source="ip neigh", value=1, at=facts.end),), 0.96)


def is_in_another_network(facts: WindowFacts) -> Iterator[Sign]:
    """A host and its switch have no common network on their link.

    If one end has a prefix length that no other port has, the sign names that end.
    """
    for version in (4, 6):
        counts = Counter(length for port in facts.ports for length in _lengths(_networks(facts, port, version)))
        for port in facts.ports.values():
            if not _is_linked(facts, port):
                continue
            both = {end: _networks(facts, end, version) for end in (port.name, port.peer)}
            if all(both.values()) and not frozenset.intersection(*both.values()):
                odd = [end for end, of in both.items() if all(counts[each] == 1 for each in _lengths(of))]
                place = odd[0] if len(odd) == 1 else "--".join(sorted(both))
                yield Sign(place, tuple(_is_in(facts, end, sorted(of)) for end, of in both.items()), 0.95)


def two_hosts_answer(facts: WindowFacts) -> Iterator[Sign]:
    """Several hosts' NICs answer one ARP request."""
    nics = {mac: port.name for port in facts.ports.values() if port.host for mac in _mac(facts, port.name)}
    for each in facts.asked:
        answering = sorted({nics[mac] for mac in each.macs if mac in nics})
        for port in answering if len(answering) > 1 else ():
            others = " and ".join(other for other in answering if other != port)
            says = f"answers ARP requests of {each.port} for {each.address}, as {others} does"
            yield Sign(
                port, (Evidence(says=says, of=port, source="arp", value=len(answering), at=each.seconds),), 0.6
            )


def leads_to_nobody_who_forwards(facts: WindowFacts) -> Iterator[Sign]:
    """The next hop of a host's default route is not a router.

    On a routed link the switch at the other end must have the address. In a network of an overlay any switch may have
    it, or a host with several links. The counters of a NIC's receive side (``h1:rx-eth1``) are not a link. A gateway
    that no node has and that most NICs use is intended: a proxy answers for it.
    """
    links = Counter(port.node for port in facts.ports.values() if port.peer)
    forwarding = [stack for node, stack in facts.stacks.items() if node in facts.switches or links[node] > 1]
    anybody = frozenset(address for stack in forwarding for address in stack.own)
    proxied = _proxied_gateways(facts)
    for port in facts.ports.values():
        stack = facts.stacks.get(port.node)
        gateway = stack.gateways.get(port.interface, "") if stack and port.host else ""
        routed = _is_routed(facts, port.name)
        switch = port.peer.partition(":")[0]
        answering = facts.stacks[switch].own if routed else anybody
        if answering and gateway and gateway not in answering and gateway not in proxied:
            who = f"{switch} does not have" if routed else "no switch has"
            says = f"its default route points to {gateway}, which {who}"
            yield Sign(
                port.name, (Evidence(says=says, of=port.name, source="ip route", value=1, at=facts.end),), 0.95
            )


def _proxied_gateways(facts: WindowFacts) -> frozenset[str]:
    """Return the gateways that no node has, and that most hosts with a gateway use, of at least three.

    If nobody answers ARP requests for one, or all pings of several hosts by it are lost, it has no proxy.
    """
    used = [
        frozenset(stack.gateways.values()) for node, stack in facts.stacks.items()
        if stack.gateways and node not in facts.switches
    ]  # fmt: skip
    owned = frozenset(address for stack in facts.stacks.values() for address in stack.own)
    counts = Counter(gateway for each in used for gateway in each - owned)
    usual = {each for each, count in counts.items() if count >= FEWEST and 2 * count > len(used)}
    unanswered = {each.address for each in facts.asked if not each.macs}
    return frozenset(each for each in usual - unanswered if not _is_silent(facts, each))


def _is_silent(facts: WindowFacts, gateway: str) -> bool:
    """Return whether several hosts ping by a gateway, to networks that are not on their links, and all is lost."""
    lost: dict[str, bool] = {}
    for ran in facts.ran:
        stack = facts.stacks.get(ran.node)
        if stack is None or ran.argv[:1] != ("ping",) or ran.argv[-1] not in facts.addresses.values():
            continue
        target = ip_address(ran.argv[-1])
        on_link = any(target in ip_network(each) for networks in stack.networks.values() for each in networks)
        if gateway in stack.gateways.values() and not on_link:
            lost[ran.node] = bool(ran.exit_code) and lost.get(ran.node, True)
    return len(lost) >= FEWEST and all(lost.values())


def has_no_address(facts: WindowFacts) -> Iterator[Sign]:
    """A host has no address on a link on which its switch has a network."""
    for port in facts.ports.values():
        if not _is_linked(facts, port):
            continue
        for version in (4, 6):
            if (there := _networks(facts, port.peer, version)) and not _networks(facts, port.name, version):
                says = f"has no IPv{version} address, and {port.peer} is in {' and '.join(sorted(there))}"
                yield Sign(
                    port.name, (Evidence(says=says, of=port.name, source="ip address", value=0, at=facts.end),), 0.95
                )


def a_switch_port_has_no_address(facts: WindowFacts) -> Iterator[Sign]:
    """A switch has no address on the link of a host that has one, unlike most links of hosts."""
    for version in (4, 6):
        links = [port for port in facts.ports.values() if _is_linked(facts, port)]
        bare = [port for port in links if not _networks(facts, port.peer, version)]
        for port in bare if 2 * len(bare) < len(links) else ():
            if there := _networks(facts, port.name, version):
                says = f"has no IPv{version} address, and {port.name} is in {' and '.join(sorted(there))}"
                seen = Evidence(says=says, of=port.peer, source="ip address", value=0, at=facts.end)
                yield Sign(port.peer, (seen,), 0.95)


def has_no_way_to_others(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC has no usable route beyond its own network, while other NICs have one.

    Its route is missing, or has no cabled interface. One that rejects packets is a cause of its own. If switches
    route each NIC's link, its host must have a route to every other host. If a host reaches a destination by none of
    its NICs, each of these NICs has a sign. A NIC whose default route is in another table by intent has none, unless
    its pings are lost. One without an address of an IP version needs no route of it where only others have addresses,
    like a tenant without IPv6.
    """
    known = {
        nic: stack
        for nic in _nics(facts)
        if (stack := facts.stacks[nic.partition(":")[0]]).routes is not None
        and not facts.down.issuperset(port.name for port in facts.links_of(nic))  # the kernel removes its routes
    }
    leading = {
        version: {nic for nic, stack in known.items() if _leads_beyond(facts, nic, stack, version)}
        for version in (4, 6)
    }
    fallbacks = _usual_fallbacks(facts)
    moved = _moved_elsewhere(facts, known, {nic.partition(":")[0] for nics in leading.values() for nic in nics})
    for nic, stack in ((nic, stack) for nic, stack in known.items() if nic not in moved):
        seen = [
            _without_default(facts, nic, stack, version)
            for version, nics in leading.items()
            if nic not in nics and any(_is_addressed(facts, each, version) == _is_addressed(facts, nic, version)
                                       for each in nics)
            and _has_gateway(facts, nic, nics)
            and (_is_routed(facts, nic) or not _has_another(nic, nics))
            and not _rejects(_default(facts, nic, stack, version), fallbacks)
        ]  # fmt: skip
        lost = _unreached(facts, nic, stack, fallbacks)
        if lost:
            seen.append(_without_route(facts, nic, stack, lost))
        if seen:
            yield Sign(nic, tuple(seen), 0.95)


def _has_gateway(facts: WindowFacts, nic: str, leading: Iterable[str]) -> bool:
    """Return whether a NIC's network has a router: a switch with an address there, or other hosts that use one."""
    if _is_routed(facts, nic):
        return True
    nodes = {*facts.switches, *(each.partition(":")[0] for each in leading)} - {nic.partition(":")[0]}
    own = {each for each in _own_networks(facts, nic) if not ip_network(each).is_link_local}
    return any(not own.isdisjoint(each) for node in nodes if node in facts.stacks
               for each in facts.stacks[node].networks.values())  # fmt: skip


def _own_networks(facts: WindowFacts, nic: str) -> frozenset[str]:
    """Return the networks of a NIC and of VLANs on it, or else of its host."""
    stack, interface = _stack_of(facts, nic), nic.partition(":")[2]
    own = [
        networks for name, networks in stack.networks.items()
        if networks and (name == interface or name.startswith(f"{interface}."))
    ]  # fmt: skip
    return frozenset[str]().union(*(own or stack.networks.values()))


def _is_addressed(facts: WindowFacts, nic: str, version: int) -> bool:
    """Return whether a NIC, a VLAN on it, or else its host has a network of an IP version."""
    return any(ip_network(each).version == version for each in _own_networks(facts, nic))


def a_route_rejects(facts: WindowFacts) -> Iterator[Sign]:
    """A route of a node's main table rejects packets to other hosts (``unreachable`` and others of ip-route(8)).

    A host has a sign for all addresses of others, and for a default route that rejects while others have a usable
    one. If most hosts have that route, it is intended for the time without another. A switch has a sign only for
    ends of probes that were lost. Its default route rejects what it has learned no route to, which is another cause.
    That of a host whose default route is in another table by intent rejects what no rule looks up there.
    Nodes that reject each other's addresses may be isolated by intent, like tenants.
    """
    lost = _ends_of_lost_probes(facts)
    fallbacks = _usual_fallbacks(facts)
    known = {nic: _stack_of(facts, nic) for nic in _nics(facts)}
    leading = {
        version: {nic for nic, stack in known.items() if _leads_beyond(facts, nic, stack, version)}
        for version in DEFAULTS
    }
    usable = {nic.partition(":")[0] for nics in leading.values() for nic in nics}
    moved = {nic.partition(":")[0] for nic in _moved_elsewhere(facts, known, usable)}
    rejected: dict[str, dict[str, StackRoute]] = {}
    found: list[tuple[str, list[Evidence], float]] = []
    for node, stack in facts.stacks.items():
        of_switch = node in facts.switches
        nics = [nic for nic in known if nic.partition(":")[0] == node]
        if of_switch or not nics:
            wanted = [address for address in lost if of_switch and address not in stack.own]
        elif facts.down.issuperset(port.name for nic in nics for port in facts.links_of(nic)):
            continue
        else:
            wanted = [address for nic, address in facts.addresses.items() if nic.partition(":")[0] != node]
        rejecting = {
            address: route for address in wanted
            if (route := stack.route_to(address)) is not None and _rejects(route, fallbacks)
            and not (route.prefix in DEFAULTS.values() and (of_switch or node in moved))
            and not (route.kind == _THROW and stack.defaults_elsewhere)
        }  # fmt: skip
        rejected[node] = rejecting
        seen = [_rejected(facts, node, rejecting)] if rejecting else []
        for version, others in leading.items():
            route = min(_defaults(stack, version), key=lambda each: each.metric, default=None)
            if nics and others and node not in moved and not rejecting and _rejects(route, fallbacks):
                seen.append(_rejected(facts, node, {route.prefix: route} if route else {}))
        if seen:
            found.append((node, seen, 0.9 if of_switch else 0.95))
    for node, seen, weight in found:
        yield Sign(node, tuple(seen), _ISOLATED if _is_isolated(facts, node, rejected) else weight)


def _is_isolated(facts: WindowFacts, node: str, rejected: Mapping[str, Collection[str]]) -> bool:
    """Return whether a node rejects addresses, and the nodes of all of them reject addresses of its own in return.

    The addresses of a leaf are those of its hosts. A single node whose routes are wrong is answered by none.
    """
    nodes: dict[str, set[str]] = {}
    for nic, address in facts.addresses.items():
        leaves = {facts.peer(port.name).partition(":")[0] for port in facts.links_of(nic)}
        nodes[address] = {nic.partition(":")[0], *leaves}
    mine = {address for address, owners in nodes.items() if node in owners}
    return bool(rejected.get(node)) and all(
        any(mine & {*rejected.get(owner, ())} for owner in nodes.get(address, ())) for address in rejected[node]
    )


def _stack_of(facts: WindowFacts, nic: str) -> Stack:
    return facts.stacks[nic.partition(":")[0]]


def _defaults(stack: Stack, version: int) -> list[StackRoute]:
    return [each for each in stack.routes or () if each.prefix == DEFAULTS[version]]


def _rejects(route: StackRoute | None, fallbacks: Collection[StackRoute]) -> bool:
    """Return whether a route rejects packets, and not only those without another route, as at most hosts."""
    return route is not None and route.kind in DROPPING and route not in fallbacks


def _usual_fallbacks(facts: WindowFacts) -> set[StackRoute]:
    """Return the default routes that reject packets at most hosts, of at least three."""
    hosts = {nic.partition(":")[0] for nic in _nics(facts)}
    having = Counter(
        route
        for host in hosts
        for version in DEFAULTS
        for route in dict.fromkeys(_defaults(facts.stacks[host], version))
        if _rejects(route, ())
    )
    return {route for route, count in having.items() if count >= FEWEST and 2 * count > len(hosts)}


def _ends_of_lost_probes(facts: WindowFacts) -> list[str]:
    """Return the addresses of both ends of pings that were not answered, and of pairs between which packets are lost.

    The answer to a ping can be lost, too.
    """
    found: dict[str, None] = {}
    for ran in facts.ran:
        if _is_lost_ping(facts, ran):
            found[ran.argv[-1]] = None
            found.update({facts.addresses[nic]: None for nic in pinging(facts, ran) if nic in facts.addresses})
    ends = {end for each in facts.swept_pairs if each.came < each.sent for end in (each.src, each.dst)}
    found.update({
        address: None for nic, address in facts.addresses.items() if ends & {nic, nic.partition(":")[0]}
    })  # fmt: skip
    return list(found)


def _rejected(facts: WindowFacts, node: str, rejecting: Mapping[str, StackRoute]) -> Evidence:
    address, route = next(iter(rejecting.items()))
    says = f"host addresses that its routes reject: the route to {address} is {route.kind} {route.prefix}"
    if address == route.prefix:
        says = f"its default route is {route.kind}; other hosts have one that points to a switch"
    return Evidence(says=says, of=node, source="ip route", value=len(rejecting), at=facts.end)


def _moved_elsewhere(facts: WindowFacts, known: Mapping[str, Stack], hosts: Collection[str]) -> set[str]:
    """Return the NICs whose default route is in another table by intent.

    ``hosts`` have a usable route in the main table. Where most NICs have one in both, as with a table for each NIC of
    a host, that of the main table is needed, too.
    """
    elsewhere = {nic for nic, stack in known.items() if nic.partition(":")[2] in stack.defaults_elsewhere}
    instead = {nic for nic in elsewhere if nic.partition(":")[0] not in hosts}
    if 2 * len(elsewhere) >= len(known) and 2 * len(instead) <= len(elsewhere):
        return set()
    return elsewhere - {sign.place for sign in a_ping_is_not_answered(facts)}


def _nics(facts: WindowFacts) -> dict[str, None]:
    """Return the NICs of hosts with known stacks. If a host has several cabled ports, return those with a network."""
    found: dict[str, None] = {}
    for port in facts.ports.values():
        if port.host and port.peer and (stack := facts.stacks.get(port.node)) is not None:
            cabled = [each.name for each in facts.ports_of(port.node) if each.peer]
            addressed = [each for each in cabled if stack.networks.get(each.partition(":")[2])]
            found.update(dict.fromkeys(addressed or cabled[:1]))
    return found


def _has_another(nic: str, nics: set[str]) -> bool:
    """Return whether another NIC of the same host is in ``nics``: then this NIC needs no default route."""
    return any(each.partition(":")[0] == nic.partition(":")[0] for each in nics)


def _leads_beyond(facts: WindowFacts, nic: str, stack: Stack, version: int) -> bool:
    """Return whether a NIC has a usable default route, or without one, any usable route that is not the kernel's."""
    default = _default(facts, nic, stack, version)
    if default is not None:
        return _is_usable(facts, nic, default)
    return any(
        route.protocol != "kernel" and ip_network(route.prefix).version == version and _is_usable(facts, nic, route)
        for route in _routes_of(facts, nic, stack)
    )


def _unreached(facts: WindowFacts, nic: str, stack: Stack, fallbacks: Collection[StackRoute]) -> list[str]:
    """Return the addresses of other hosts that a NIC's host has no route to; empty unless its link is routed."""
    host = nic.partition(":")[0]
    if not _is_routed(facts, nic):
        return []
    return [
        address
        for other, address in facts.addresses.items()
        if other.partition(":")[0] != host
        and not _is_usable(facts, nic, route := stack.route_to(address))
        and not _rejects(route, fallbacks)
    ]


def _without_default(facts: WindowFacts, nic: str, stack: Stack, version: int) -> Evidence:
    route = _default(facts, nic, stack, version)
    by = " and ".join(route.interfaces) or "nothing" if route else ""
    says = f"has no IPv{version} default route" if route is None else f"its default route is by {by}"
    return Evidence(
        says=f"{says}; other hosts have one that points to a switch", of=nic, source="ip route", value=0, at=facts.end
    )


def _without_route(facts: WindowFacts, nic: str, stack: Stack, lost: list[str]) -> Evidence:
    route = stack.route_to(lost[0])
    says = f"host addresses without a route, for example {lost[0]}"
    if route is not None:
        by = " and ".join(route.interfaces) or "nothing"
        says = f"host addresses that its routes do not reach: the route to {lost[0]} is by {by}"
    return Evidence(says=says, of=nic, source="ip route", value=len(lost), at=facts.end)


def _default(facts: WindowFacts, nic: str, stack: Stack, version: int) -> StackRoute | None:
    """Return the default route that a NIC uses for an IP version, or None."""
    found = [each for each in _routes_of(facts, nic, stack) if each.prefix == DEFAULTS[version]]
    return min(found, key=lambda each: each.metric, default=None)


def _routes_of(facts: WindowFacts, nic: str, stack: Stack) -> list[StackRoute]:
    """Return the routes of a NIC's host, without those that lead only by its other NICs."""
    host, _, interface = nic.partition(":")
    own = {each.partition(":")[2] for each in _nics(facts) if each.partition(":")[0] == host}
    others = own - {interface}
    return [each for each in stack.routes or () if not each.interfaces or not others.issuperset(each.interfaces)]


def _is_usable(facts: WindowFacts, nic: str, route: StackRoute | None) -> bool:
    """Return whether a route leads out of a NIC's host: by a cabled interface, a bond, or a VLAN interface."""
    if route is None or route.kind != "unicast" or not route.interfaces:
        return False
    loose = {port.interface for port in facts.ports_of(nic.partition(":")[0]) if not port.peer} | {"lo"}
    return not set(route.interfaces) <= loose


def _is_routed(facts: WindowFacts, nic: str) -> bool:
    """Return whether the switch port at the other end of a NIC's cable has a network: it is in no bridge."""
    peer = facts.peer(nic)
    return bool(_networks(facts, peer, 4) or _networks(facts, peer, 6))


def nobody_answers(facts: WindowFacts) -> Iterator[Sign]:
    """An ARP request for an address gets no answer."""
    for each in facts.asked:
        if not each.macs:
            says = f"its ARP requests for {each.address} are not answered"
            yield Sign(each.port, (Evidence(says=says, of=each.port, source="arp", value=0, at=each.seconds),))


def a_ping_is_not_answered(facts: WindowFacts) -> Iterator[Sign]:
    """A host does not answer a ping that is small enough for every link."""
    for ran in facts.ran:
        if _is_lost_ping(facts, ran):
            says = f"not answered: {' '.join(ran.argv)}"
            for nic in pinging(facts, ran):
                yield Sign(nic, (Evidence(says=says, of=nic, source="ping", value=0, at=ran.seconds),))


def _is_lost_ping(facts: WindowFacts, ran: Ran) -> bool:
    """Return whether a command is a ping of a host, small enough for every link, that was not answered."""
    if ran.argv[:1] != ("ping",) or not ran.exit_code or ran.argv[-1] not in facts.addresses.values():
        return False
    size = ran.argv[ran.argv.index("-s") + 1] if "-s" in ran.argv[:-1] else "56"
    return size.isdigit() and int(size) <= _SMALL


def _mac(facts: WindowFacts, port: str) -> frozenset[str]:
    """Return the MAC of a port as a set; empty if it is not known, or for a member of a bridge or a bond."""
    node, _, interface = port.partition(":")
    stack = facts.stacks.get(node)
    mac = stack.macs.get(interface, "") if stack else ""
    return frozenset({mac} - {""})


def _is_linked(facts: WindowFacts, port: PortFacts) -> bool:
    """Return whether a port is a host's, and its link is up: an interface that is shut has no networks."""
    shut = facts.down & {port.name, port.peer}
    return port.host and not shut and bool(_mac(facts, port.name)) and bool(_mac(facts, port.peer))


def _networks(facts: WindowFacts, port: str, version: int) -> frozenset[str]:
    """Return the networks of an IP version on the link of a port."""
    node, _, interface = port.partition(":")
    stack = facts.stacks.get(node)
    networks = stack.networks.get(interface, frozenset()) if stack else frozenset()
    return frozenset(each for each in networks if ip_network(each).version == version)


def _lengths(networks: frozenset[str]) -> set[int]:
    return {ip_network(each).prefixlen for each in networks}


def _is_in(facts: WindowFacts, port: str, networks: list[str]) -> Evidence:
    return Evidence(
        says=f"is in {' and '.join(networks)}", of=port, source="ip address", value=len(networks), at=facts.end
    )
