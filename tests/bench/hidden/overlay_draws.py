"""Faults of bridges, VLANs, tunnels and the FDB of an overlay's leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.hidden.hidden_fault import Command, Harm, HiddenFault

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground


def bridge_port(ground: Ground, chance: random.Random) -> HiddenFault:
    """A bridge port of a leaf is isolated, does not learn, does not flood, or is blocked by hand."""
    nic = chance.choice(ground.nics)
    port = ground.peers[nic]
    leaf, _, interface = port.partition(":")
    (name, value, before), harm = chance.choice(
        (
            (("state", "0", "3"), Harm.LOSS),
            (("learning", "off", "on"), Harm.NOTHING),
            (("flood", "off", "on"), Harm.NOTHING),
            (("neigh_suppress", "on", "off"), Harm.NOTHING),
        )
    )
    at = ("bridge", "link", "set", "dev", interface, name)
    changed = Command(leaf, (*at, value), (*at, before))
    pairs = ground.pairs_through(nic, chance)
    return HiddenFault("bridge-port", frozenset({"overlay"}), (port,), (changed,), harm, pairs)


def vlan(ground: Ground, chance: random.Random) -> HiddenFault:
    """A leaf's port to a host is not in the host's VLAN."""
    nic = chance.choice(ground.nics)
    port = ground.peers[nic]
    leaf, _, interface = port.partition(":")
    at = ("dev", interface, "vid", str(ground.vlan(nic)))
    changed = Command(leaf, ("bridge", "vlan", "del", *at), ("bridge", "vlan", "add", *at, "pvid", "untagged"))
    pairs = ground.pairs_through(nic, chance)
    return HiddenFault("vlan", frozenset({"overlay"}), (port,), (changed,), Harm.LOSS, pairs)


def _are_bridged(ground: Ground, one: str, other: str) -> bool:
    return one != other and ground.vlan(one) == ground.vlan(other)


def fdb(ground: Ground, chance: random.Random) -> HiddenFault:
    """A leaf has a static FDB entry that sends a host's MAC to the wrong port."""
    nic, other = chance.choice([(a, b) for a in ground.nics for b in ground.nics if _are_bridged(ground, a, b)])
    leaf = ground.leaf_of(nic)
    node, _, interface = other.partition(":")
    wrong = ground.peers[nic].partition(":")[2]
    mac = ground.plan[node].interfaces[interface].mac
    at = (mac, "dev", wrong, "master", "static", "vlan", str(ground.vlan(nic)))
    # Without undo: a deletion would also remove the entry from EVPN or learning that this one replaces.
    changed = Command(leaf, ("bridge", "fdb", "replace", *at))
    return HiddenFault(
        "fdb", frozenset({"overlay", "neighbour"}), (leaf,), (changed,), Harm.LOSS, (f"{nic}:{other}",)
    )


OVERLAY_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (bridge_port, vlan, fdb)
