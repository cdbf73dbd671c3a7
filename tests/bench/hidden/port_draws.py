"""Faults made of any field of the port configuration: classes, PFC, buffers, ECN, schedulers, watchdogs, rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.hidden.hidden_fault import CraftedFrames, Harm, HiddenFault, Injected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground

_FIELDS: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...], Harm], ...]] = (
    ("class", ("map.dscp.26",), ("0", "1", "4", "6"), Harm.SLOW),
    ("class", ("map.dscp.48", "map.dscp.0"), ("2", "5"), Harm.NOTHING),
    ("class", ("map.trust",), ("pcp",), Harm.SLOW),
    ("pfc", ("pfc.priorities",), ("4", "2,4"), Harm.LOSS),
    ("pfc", ("pfc.tx", "pfc.rx"), ("false",), Harm.LOSS),
    ("pfc", ("pfc.quanta",), ("8", "64", "1024"), Harm.LOSS),
    ("buffer", ("buffer.groups.3.headroom",), ("1B", "4KB", "10KB"), Harm.LOSS),
    ("buffer", ("buffer.groups.3.xoff",), ("10KB", "20KB", "400KB"), Harm.LOSS),
    ("buffer", ("buffer.groups.3.alpha",), ("1/64", "1/16", "8"), Harm.LOSS),
    ("buffer", ("buffer.queues.0",), ("3KB", "20KB"), Harm.NOTHING),
    ("ecn", ("ecn.3.kmin",), ("1KB", "9KB", "150KB"), Harm.SLOW),
    ("ecn", ("ecn.3.pmax",), ("0.001", "1"), Harm.SLOW),
    ("ecn", ("ecn.3.enabled",), ("false",), Harm.SLOW),
    ("scheduler", ("scheduler.3",), ("1", "strict"), Harm.SLOW),
    ("watchdog", ("pfc.watchdog.enabled",), ("true", "false"), Harm.NOTHING),
    ("watchdog", ("pfc.watchdog.detection",), ("1ms", "10s"), Harm.LOSS),
)
"""Family, settings, values, and the worst effect under load."""


def port_setting(ground: Ground, chance: random.Random) -> HiddenFault:
    """A field of the configuration of a port or switch has another value."""
    family, names, values, harm = chance.choice(_FIELDS)
    port = chance.choice((*ground.used_ports, *ground.nics))
    place = port.partition(":")[0] if chance.random() < 0.4 and port not in ground.nics else port
    words = f"{chance.choice(names)}={chance.choice(values)}"
    changed = Injected("port-config", place, {"set": words})
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("port-setting", frozenset({family}), (place, port), (changed,), harm, pairs)


def link_rate(ground: Ground, chance: random.Random) -> HiddenFault:
    """A link has a lower rate than the others."""
    port = chance.choice(ground.used_ports)
    changed = Injected("link-rate", ground.link(port), {"rate": f"{chance.choice((10, 25, 40, 50))}Mbit"})
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("link-rate", frozenset({"rate"}), (ground.link(port),), (changed,), Harm.SLOW, pairs)


def pause_frames(ground: Ground, chance: random.Random) -> HiddenFault:
    """A host sends PFC frames: of any class, XOFF or XON, at any rate."""
    nic, number = chance.choice(ground.nics), chance.randrange(8)
    quanta, pace = chance.choice((65535, 65535, 1000, 0)), chance.choice((2, 20, 100))
    words = ("pfc", "--classes", f"{number}={quanta}", "--count", str(600 * pace), "--pace", str(pace), "--send", nic)
    harm = Harm.SLOW if number == 3 and quanta else Harm.NOTHING
    actions = (CraftedFrames(words),)
    pairs = ground.pairs_through(nic, chance)
    return HiddenFault("pause-frames", frozenset({"pfc-frames"}), (nic,), actions, harm, pairs)


PORT_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    port_setting, port_setting, port_setting, link_rate, pause_frames,
)  # fmt: skip
"""Fields of the port configuration count three times: there are many."""
