"""What IP stacks and ARP tell of addresses: who sends to a MAC that nobody has, and who is in another network."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from lab.diagnose.sign import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Facts

_SMALL: Final = 1024
"""Octets of a ping that every link takes: IPv6 asks 1280 of each (RFC 8200 section 5)."""


def sends_to_another_mac(facts: Facts) -> Iterator[Sign]:
    """A node sends to a MAC that neither who answers by ARP has, nor the NIC at the other end of the cable."""
    answers = {(each.port, each.address): each.macs for each in facts.asked if each.macs}
    for node, stack in facts.stacks.items():
        for (interface, address), mac in stack.neighbours.items():
            port = f"{node}:{interface}"
            real = answers.get((port, address)) or _mac(facts, facts.peer(port))
            if real and mac not in real:
                says = f"what is for {address} is sent to {mac}, and {' and '.join(sorted(real))} is there"
                yield Sign(port, (Evidence(says, port, "ip neigh", 1, facts.end),), 0.96)


def is_in_another_network(facts: Facts) -> Iterator[Sign]:
    """The ends of a cable between a host and its switch have no network in common.

    Of one that nobody else is as long as, the end is named that has it.
    """
    for version in (4, 6):
        counts = Counter(length for port in facts.ports for length in _lengths(_networks(facts, port, version)))
        for port in facts.ports.values():
            if not port.host or not _mac(facts, port.name) or not _mac(facts, port.peer):
                continue
            both = {end: _networks(facts, end, version) for end in (port.name, port.peer)}
            if all(both.values()) and not frozenset.intersection(*both.values()):
                odd = [end for end, of in both.items() if all(counts[each] == 1 for each in _lengths(of))]
                place = odd[0] if len(odd) == 1 else "--".join(sorted(both))
                yield Sign(place, tuple(_is_in(facts, end, sorted(of)) for end, of in both.items()), 0.95)


def two_hosts_answer(facts: Facts) -> Iterator[Sign]:
    """To one question by ARP several NICs of hosts answer."""
    nics = {mac: port.name for port in facts.ports.values() if port.host for mac in _mac(facts, port.name)}
    for each in facts.asked:
        answering = sorted({nics[mac] for mac in each.macs if mac in nics})
        for port in answering if len(answering) > 1 else ():
            others = " and ".join(other for other in answering if other != port)
            says = f"answers for {each.address} as {others} does, asked by {each.port}"
            yield Sign(port, (Evidence(says, port, "arp", len(answering), each.seconds),), 0.6)


def leads_to_nobody_who_forwards(facts: Facts) -> Iterator[Sign]:
    """The next hop of a host's default route is no address of a switch, nor of a host with several links."""
    links = Counter(port.node for port in facts.ports.values())
    forwarding = [stack for node, stack in facts.stacks.items() if node in facts.switches or links[node] > 1]
    gateways = frozenset(address for stack in forwarding for address in stack.own)
    for port in facts.ports.values():
        stack = facts.stacks.get(port.node)
        gateway = stack.gateways.get(port.name.partition(":")[2], "") if stack and port.host else ""
        if gateways and gateway and gateway not in gateways:
            says = f"its default route leads to {gateway}, which no switch has"
            yield Sign(port.name, (Evidence(says, port.name, "ip route", 1, facts.end),), 0.95)


def nobody_answers(facts: Facts) -> Iterator[Sign]:
    """Nobody answers for an address that is asked for by ARP."""
    for each in facts.asked:
        if not each.macs:
            says = f"nobody answers for {each.address}, which it asks for"
            yield Sign(each.port, (Evidence(says, each.port, "arp", 0, each.seconds),))


def a_ping_is_not_answered(facts: Facts) -> Iterator[Sign]:
    """A host does not answer a ping that is small enough for all links."""
    for ran in facts.ran:
        if ran.argv[:1] == ("ping",) and ran.exit_code and ran.argv[-1] in facts.addresses.values():
            size = ran.argv[ran.argv.index("-s") + 1] if "-s" in ran.argv[:-1] else "56"
            if size.isdigit() and int(size) <= _SMALL:
                says = f"not answered: {' '.join(ran.argv)}"
                yield Sign(ran.node, (Evidence(says, ran.node, "ping", 0, ran.seconds),))


def _mac(facts: Facts, port: str) -> frozenset[str]:
    """The MAC of a NIC; none where it is not known, and of a member of a bridge or a bond."""
    node, _, interface = port.partition(":")
    stack = facts.stacks.get(node)
    mac = stack.macs.get(interface, "") if stack else ""
    return frozenset({mac} - {""})


def _networks(facts: Facts, port: str, version: int) -> frozenset[str]:
    """Of one IP version, those on the link of a port."""
    node, _, interface = port.partition(":")
    stack = facts.stacks.get(node)
    networks = stack.networks.get(interface, frozenset()) if stack else frozenset()
    return frozenset(each for each in networks if ip_network(each).version == version)


def _lengths(networks: frozenset[str]) -> set[int]:
    return {ip_network(each).prefixlen for each in networks}


def _is_in(facts: Facts, port: str, networks: list[str]) -> Evidence:
    return Evidence(f"is in {' and '.join(networks)}", port, "ip address", len(networks), facts.end)
