"""Faults made with routes, rules, neighbours, sysctls and the configuration of routing daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.hidden.hidden_fault import Command, Harm, HiddenFault, Injected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground


def _src_dst(pair: str) -> tuple[str, str]:
    a, b, c, d = pair.split(":")
    return f"{a}:{b}", f"{c}:{d}"


def _router(ground: Ground, src: str, chance: random.Random) -> str:
    """Return a node that routes packets of ``src``: its host, or a switch of the underlay."""
    switches = () if ground.overlay else (ground.leaf_of(src), *(ground.spines if ground.uplinks else ()))
    return chance.choice((src.partition(":")[0], *switches))


def typed_route(ground: Ground, chance: random.Random) -> HiddenFault:
    """A blackhole, unreachable or prohibit route to one address at a host or switch."""
    pairs = ground.pairs_through(chance.choice(ground.nics), chance)
    src, dst = _src_dst(pairs[0])
    node, kind = _router(ground, src, chance), chance.choice(("blackhole", "unreachable", "prohibit"))
    words = (kind, f"{ground.address(dst)}/32")
    changed = Command(node, ("ip", "route", "add", *words), ("ip", "route", "del", *words))
    return HiddenFault("typed-route", frozenset({"route"}), (node,), (changed,), Harm.LOSS, pairs)


def rule(ground: Ground, chance: random.Random) -> HiddenFault:
    """A policy rule that drops packets to one address before any route is looked up."""
    pairs = ground.pairs_through(chance.choice(ground.nics), chance)
    src, dst = _src_dst(pairs[0])
    node = _router(ground, src, chance)
    words = (
        "pref",
        str(chance.randint(10, 900)),
        "to",
        ground.address(dst),
        chance.choice(("blackhole", "prohibit")),
    )
    changed = Command(node, ("ip", "rule", "add", *words), ("ip", "rule", "del", *words))
    return HiddenFault("rule", frozenset({"route"}), (node,), (changed,), Harm.LOSS, pairs)


def pinned_route(ground: Ground, chance: random.Random) -> HiddenFault:
    """A static route to one address takes one of several equal-cost paths."""
    uplink = chance.choice(ground.uplinks)
    leaf, _, interface = uplink.partition(":")
    pairs = ground.pairs_through(leaf, chance)
    src, dst = _src_dst(pairs[0])
    target = dst if ground.leaf_of(src) == leaf else src
    words = (
        f"{ground.address(target)}/32",
        "via",
        "inet6",
        ground.link_local(ground.peers[uplink]),
        "dev",
        interface,
    )
    changed = Command(leaf, ("ip", "route", "add", *words), ("ip", "route", "del", *words))
    return HiddenFault("pinned-route", frozenset({"paths", "route"}), (leaf, uplink), (changed,), Harm.SLOW, pairs)


def turned_route(ground: Ground, chance: random.Random) -> HiddenFault:
    """A spine's static route to one address leads to a leaf that does not have it: packets turn there."""
    pairs = ground.pairs_through(chance.choice(ground.nics), chance)
    _, dst = _src_dst(pairs[0])
    spine = chance.choice(ground.spines)
    ports = [end for end in ground.switch_ports if end.partition(":")[0] == spine]
    wrong = chance.choice([end for end in ports if ground.peers[end].partition(":")[0] != ground.leaf_of(dst)])
    via = ("via", "inet6", ground.link_local(ground.peers[wrong]), "dev", wrong.partition(":")[2])
    words = (f"{ground.address(dst)}/32", *via)
    changed = Command(spine, ("ip", "route", "add", *words), ("ip", "route", "del", *words))
    return HiddenFault("turned-route", frozenset({"route"}), (spine,), (changed,), Harm.LOSS, pairs)


def host_gateway(ground: Ground, chance: random.Random) -> HiddenFault:
    """A host's route to others has a lower metric and a next hop that does not exist."""
    nic = chance.choice(ground.nics)
    host, _, interface = nic.partition(":")
    pairs = ground.pairs_through(nic, chance)
    src, dst = _src_dst(pairs[0])
    other = dst if src == nic else src
    words = (f"{ground.address(other)}/32", "via", "10.99.0.9", "dev", interface, "onlink")
    changed = Command(host, ("ip", "route", "add", *words), ("ip", "route", "del", *words))
    return HiddenFault("host-gateway", frozenset({"route"}), (nic,), (changed,), Harm.LOSS, pairs)


def neighbour(ground: Ground, chance: random.Random) -> HiddenFault:
    """A neighbour entry of a leaf or a host has a MAC that does not exist."""
    nic = chance.choice(ground.nics)
    port = nic if ground.overlay or chance.random() < 0.4 else ground.peers[nic]
    node, _, interface = port.partition(":")
    gateway = ground.plan[nic.partition(":")[0]].interfaces[nic.partition(":")[2]].gateway
    pairs = ground.pairs_through(nic, chance)
    address = ground.address(nic) if port != nic else str(gateway)
    if ground.overlay:
        address = ground.address(next(end for end in _src_dst(pairs[0]) if end != nic))
    mac = f"02:de:ad:{chance.randrange(256):02x}:00:01"
    changed = Command(
        node,
        ("ip", "neigh", "replace", address, "lladdr", mac, "dev", interface, "nud", "permanent"),
        ("ip", "neigh", "del", address, "dev", interface),
    )
    return HiddenFault("neighbour", frozenset({"neighbour"}), (port,), (changed,), Harm.LOSS, pairs)


def _sysctl(node: str, key: str, value: int, before: int) -> Command:
    return Command(node, ("sysctl", "-qw", f"{key}={value}"), ("sysctl", "-qw", f"{key}={before}"))


def forwarding_sysctl(ground: Ground, chance: random.Random) -> HiddenFault:
    """A switch, or one of its ports, does not forward IPv4."""
    if ground.overlay or chance.random() < 0.5:
        place = chance.choice(ground.used_switches)
        changed = _sysctl(place, "net.ipv4.ip_forward", 0, 1)
    else:
        place = chance.choice(ground.used_ports)
        node, _, interface = place.partition(":")
        changed = _sysctl(node, f"net.ipv4.conf.{interface}.forwarding", 0, 1)
    harm = Harm.NOTHING if ground.overlay and place in ground.spines else Harm.LOSS
    pairs = ground.pairs_through(place, chance)
    return HiddenFault("forwarding-sysctl", frozenset({"forwarding"}), (place,), (changed,), harm, pairs)


def quiet_sysctl(ground: Ground, chance: random.Random) -> HiddenFault:
    """A setting of the IP stack differs at one node, and established traffic does not depend on it."""
    node = chance.choice((*ground.hosts, *ground.switches))
    key, value, before = chance.choice(
        (
            ("net.ipv4.conf.all.arp_filter", 1, 0),
            ("net.ipv4.conf.all.log_martians", 1, 0),
            ("net.ipv4.icmp_echo_ignore_all", 1, 0),
            ("net.ipv4.tcp_sack", 0, 1),
        )
    )
    changed = _sysctl(node, key, value, before)
    pairs = ground.pairs_through(node, chance)
    return HiddenFault("quiet-sysctl", frozenset({"forwarding"}), (node,), (changed,), Harm.NOTHING, pairs)


def hash_sysctl(ground: Ground, chance: random.Random) -> HiddenFault:
    """A leaf hashes addresses only, so that all QPs of a pair share one path."""
    leaf = chance.choice(ground.leaves)
    changed = _sysctl(leaf, "net.ipv4.fib_multipath_hash_policy", 0, 3)
    pairs = ground.pairs_through(leaf, chance)
    return HiddenFault("hash-sysctl", frozenset({"paths"}), (leaf,), (changed,), Harm.SLOW, pairs)


def session(ground: Ground, chance: random.Random) -> HiddenFault:
    """A switch's BGP session over a link is shut, or filters everything that it would advertise."""
    port = chance.choice([end for end in ground.switch_ports if ground.peers[end] in ground.switch_ports])
    node, _, interface = port.partition(":")
    router = f"router bgp {ground.plan[node].asn}"  # with VRFs, FRR has several
    lines = f"{router}; neighbor {interface} shutdown"
    if chance.random() < 0.5:
        into = f"{router}; address-family ipv4 unicast; neighbor {interface} route-map NONE out"
        lines = f"route-map NONE deny 10; exit; {into}"
    actions = (Injected("frr-config", node, {"lines": lines}),)
    places = (node, ground.link(port))
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("bgp-session", frozenset({"session", "paths"}), places, actions, Harm.SLOW, pairs)


ROUTE_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    typed_route, rule, host_gateway, neighbour, forwarding_sysctl, quiet_sysctl, session,
)  # fmt: skip
UNDERLAY_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    pinned_route, turned_route, hash_sysctl,
)  # fmt: skip
"""Those that need hosts' addresses in the underlay, and several spines."""
