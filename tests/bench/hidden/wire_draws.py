"""Disturbances of a link, of any rate and direction: loss, corruption, duplicates, delay, jitter, reordering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.bench.hidden.hidden_fault import Harm, HiddenFault, Injected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground

_LEAST: Final = 0.001


def _share(chance: random.Random) -> str:
    """Return a share of packets from 0.1% to 100%, uniform in its logarithm."""
    share = min(1.0, _LEAST ** chance.random())
    return f"{100 * share:.3g}%"


def _disturbed(
    ground: Ground, chance: random.Random, made: tuple[str, str, Harm], parameters: dict[str, Any]
) -> HiddenFault:
    kind, family, harm = made
    families = frozenset(family.split())
    port = chance.choice((*ground.used_ports, *ground.nics))
    one_way = chance.random() < 0.7
    place = port if one_way else "--".join(end.partition(":")[0] for end in (port, ground.peers[port]))
    whole = ground.link(port) if one_way or len(_between(ground, port)) > 1 else place
    changed = Injected(kind, port if len(_between(ground, port)) > 1 else place, parameters)
    pairs = ground.pairs_through(port, chance)
    return HiddenFault(kind, families, (ground.link(port), whole), (changed,), harm, pairs)


def _between(ground: Ground, port: str) -> list[str]:
    """Return the ports of a node that lead to the same node as ``port``."""
    node, far = port.partition(":")[0], ground.peers[port].partition(":")[0]
    return [
        end for end, peer in ground.peers.items() if end.partition(":")[0] == node and peer.partition(":")[0] == far
    ]


def loss(ground: Ground, chance: random.Random) -> HiddenFault:
    """Packets vanish on a link: all, of one class, or large ones."""
    only = chance.choice(({}, {}, {"priority": "3"}, {"beyond": str(chance.choice((500, 1000, 2000)))}))
    return _disturbed(ground, chance, ("link-loss", "loss", Harm.LOSS), {"probability": _share(chance), **only})


def corruption(ground: Ground, chance: random.Random) -> HiddenFault:
    """Bits flip on a link, where the next MAC drops frames, or in the switch behind it, where the ICRC shows it."""
    behind, families = ({"behind_fcs": "true"}, "corrupt") if chance.random() < 0.5 else ({}, "corrupt loss")
    return _disturbed(
        ground, chance, ("link-corrupt", families, Harm.LOSS), {"probability": _share(chance), **behind}
    )


def duplicates(ground: Ground, chance: random.Random) -> HiddenFault:
    """Packets arrive twice."""
    return _disturbed(ground, chance, ("link-duplicate", "duplicate", Harm.SLOW), {"probability": _share(chance)})


def reordering(ground: Ground, chance: random.Random) -> HiddenFault:
    """Packets are overtaken by others."""
    many = {"probability": _share(chance), "distance": str(chance.choice((1, 3, 10)))}
    return _disturbed(ground, chance, ("link-reorder", "reorder", Harm.SLOW), many)


def delay(ground: Ground, chance: random.Random) -> HiddenFault:
    """A link is longer, in both directions or one."""
    late = {"delay": f"{chance.choice((200, 1000, 5000, 20000))}us"}
    return _disturbed(ground, chance, ("link-delay", "delay", Harm.SLOW), late)


def jitter(ground: Ground, chance: random.Random) -> HiddenFault:
    """Packets wait for a random time on a link."""
    late = {"jitter": f"{chance.choice((500, 2000, 10000))}us"}
    return _disturbed(ground, chance, ("link-jitter", "delay", Harm.SLOW), late)


WIRE_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    loss, loss, corruption, duplicates, reordering, delay, jitter,
)  # fmt: skip
