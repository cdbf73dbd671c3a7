"""Faults made with packet filters: nft rules and tc filters that drop, limit or alter packets at a port or node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.hidden.hidden_fault import Command, Harm, HiddenFault

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground

_SHARES: Final = (1, 2, 5, 10, 25, 50, 100)
"""Percent of the packets."""


def _place(ground: Ground, chance: random.Random) -> str:
    """Return a port that receives: of a switch or a host."""
    return chance.choice((*ground.used_ports, *ground.nics))


def nft_at_a_port(ground: Ground, chance: random.Random) -> HiddenFault:
    """An nft rule at the ingress hook of a port drops a share of the packets that match."""
    port = _place(ground, chance)
    node, _, interface = port.partition(":")
    matches = ["meta protocol ip", "udp dport 4791", "udp length 1100-9000", "ip dscp 26"]
    match = chance.choice(("meta protocol ip",) if ground.overlay and port not in ground.nics else matches)
    share = chance.choice(_SHARES)
    some = () if share == 100 else ("numgen", "random", "mod", "100", "<", str(share))
    hook = f"{{ type filter hook ingress device {interface} priority 0 ; }}"
    commands = (
        Command(node, ("nft", "add", "table", "netdev", "custom"), ("nft", "delete", "table", "netdev", "custom")),
        Command(node, ("nft", "add", "chain", "netdev", "custom", "c", hook), ("true",)),
        Command(node, ("nft", "add", "rule", "netdev", "custom", "c", *match.split(), *some, "drop"), ("true",)),
    )
    return HiddenFault(
        "nft-ingress", frozenset({"filter"}), (port,), commands, Harm.LOSS, ground.pairs_through(port, chance)
    )


def nft_forward(ground: Ground, chance: random.Random) -> HiddenFault:
    """An nft rule drops a share of what a switch forwards, or of what a host receives or sends."""
    node = chance.choice((*ground.hosts, *(() if ground.overlay else ground.used_switches)))
    hook = chance.choice(("input", "output")) if node in ground.hosts else "forward"
    share = chance.choice(_SHARES)
    some = () if share == 100 else ("numgen", "random", "mod", "100", "<", str(share))
    chain = f"{{ type filter hook {hook} priority 0 ; }}"
    commands = (
        Command(node, ("nft", "add", "table", "inet", "custom"), ("nft", "delete", "table", "inet", "custom")),
        Command(node, ("nft", "add", "chain", "inet", "custom", "c", chain), ("true",)),
        Command(
            node, ("nft", "add", "rule", "inet", "custom", "c", "ip", "protocol", "udp", *some, "drop"), ("true",)
        ),
    )
    return HiddenFault(
        "nft-hook", frozenset({"filter"}), (node,), commands, Harm.LOSS, ground.pairs_through(node, chance)
    )


def _tc(port: str, direction: str, *words: str) -> Command:
    node, _, interface = port.partition(":")
    at = ("dev", interface, direction, "pref", "50")
    return Command(node, ("tc", "filter", "add", *at, "protocol", "ip", *words), ("tc", "filter", "del", *at))


def tc_drop(ground: Ground, chance: random.Random) -> HiddenFault:
    """A tc filter drops RoCE, at ingress or egress of a port."""
    port, direction = _place(ground, chance), chance.choice(("ingress", "egress"))
    match = () if ground.overlay else chance.choice((("dst_port", "4791"), ()))
    filtered = _tc(port, direction, "flower", "ip_proto", "udp", *match, "action", "drop")
    link = ground.link(ground.peers[port] if direction == "ingress" else port)
    return HiddenFault(
        "tc-drop", frozenset({"filter"}), (port, link), (filtered,), Harm.LOSS, ground.pairs_through(port, chance)
    )


def tc_police(ground: Ground, chance: random.Random) -> HiddenFault:
    """A policer drops what exceeds a rate at ingress of a port."""
    port, rate = _place(ground, chance), chance.choice((1, 5, 20, 40))
    words = ("police", "rate", f"{rate}mbit", "burst", "20k", "conform-exceed", "drop")
    policed = _tc(port, "ingress", "matchall", "action", *words)
    places = (port, ground.link(ground.peers[port]))
    return HiddenFault(
        "tc-police", frozenset({"filter", "rate"}), places, (policed,), Harm.LOSS, ground.pairs_through(port, chance)
    )


def tc_rewrite(ground: Ground, chance: random.Random) -> HiddenFault:
    """A tc filter rewrites the DSCP of packets that leave a port: they change their class on the link."""
    port, dscp = chance.choice((*ground.used_ports, *ground.nics)), chance.choice((0, 10, 46))
    munge = ("action", "pedit", "ex", "munge", "ip", "dsfield", "set", str(dscp << 2), "retain", "0xfc")
    altered = _tc(port, "egress", "flower", *munge, "pipe", "action", "csum", "ip4h")
    places = (port, ground.link(port), ground.peers[port])
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("tc-rewrite", frozenset({"class", "filter"}), places, (altered,), Harm.SLOW, pairs)


FILTER_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    nft_at_a_port, nft_forward, tc_drop, tc_police, tc_rewrite,
)  # fmt: skip
