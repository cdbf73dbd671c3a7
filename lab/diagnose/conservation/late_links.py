"""Links on which packets stay longer than their rate and length explain, and than they stay on other links.

By Little's law, the mean number of packets on a link, divided by their rate, is the time of each. A link that sends
all the time has at most one packet on it, others at most the share of their load. How many of these are counted
depends on the machine that emulates the fabric, and is the same on all links of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.diagnose.conservation.hop_balance import HopKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.facts import WindowFacts

_LEAST_LOAD: Final = 0.05
"""Share of the rate. A link with less load has a packet on it too rarely to be compared with."""
_AS_LOADED: Final = 0.5
"""A link is compared with others that have at least this much of its own load."""
_COMPARED: Final = 3
"""The fewest other cables that show how many packets of its load a link of this window holds."""
_STANDS_OUT: Final = 3.0
"""How many times more packets a link holds, beyond what is usual, than any other one, and than are usual."""
_SEEN: Final = 8
"""Packets, of all samples together, that a link holds at least: fewer are chance."""


@dataclass(frozen=True, slots=True)
class LateLink:
    """A link that holds packets, and by how many and how long these are too many and too late."""

    hop: HopBalance
    more: float
    """The mean number of packets on the link, beyond those of its load and its length."""
    seconds: float
    """The time of each packet on the link, beyond that of other links."""


@dataclass(frozen=True, slots=True)
class _Held:
    hop: HopBalance
    load: float
    rate: float
    """Packets per second."""
    above: float
    """The mean number of packets on a link, beyond those of its configured delay."""

    @property
    def cable(self) -> frozenset[str]:
        """Both ends of a link, whichever sends."""
        return frozenset(self.hop.place.split("--"))


def late_link(facts: WindowFacts) -> LateLink | None:
    """Return the only cable on which packets stay, and far more of them than on any other; None without one.

    A busy machine that emulates a fabric holds packets on all links.
    """
    held = [_held(facts, hop) for hop in facts.hops if hop.kind is HopKind.LINK and hop.entered]
    more = {each: _more(each, held) for each in held}
    most = max(held, key=lambda each: more[each], default=None)
    if most is None or not _is_certain(most, more[most]):
        return None
    others = [more[each] for each in held if each.cable != most.cable]
    if more[most] < _STANDS_OUT * max(others, default=0.0):
        return None
    return LateLink(most.hop, more[most], more[most] / most.rate)


def _held(facts: WindowFacts, hop: HopBalance) -> _Held:
    """Return the packets on a link. If its configuration is not known, it can be full, and is as long as planned."""
    port = hop.place.partition("--")[0]
    config = facts.config(port)
    load = facts.port_load(port) if facts.rate(port) else 1.0
    rate = hop.entered / facts.seconds
    delay = config.delay if config else facts.planned_delays.get(port, 0.0)
    above = hop.held - delay * rate
    return _Held(hop=hop, load=min(1.0, load), rate=rate, above=above)


def _more(held: _Held, of: Iterable[_Held]) -> float:
    return held.above - _usual(held, of)


def _usual(held: _Held, of: Iterable[_Held]) -> float:
    """Return how many packets a link can hold without a fault: for its load, and for its rate, as any comparable one.

    Small packets have a high rate for their load, and a machine that is late delays each as long as a large one.
    Without enough comparable links, all of its load can be on it.
    """
    least = max(_LEAST_LOAD, _AS_LOADED * held.load)
    others = [each for each in of if each.cable != held.cable and each.load >= least]
    enough = len({each.cable for each in others}) >= _COMPARED
    share = max((each.above / each.load for each in others), default=0.0) if enough else 1.0
    late = max((each.above / each.rate for each in others), default=0.0)
    return max(0.0, min(1.0, share) * held.load, late * held.rate)


def _is_certain(held: _Held, more: float) -> bool:
    """Return whether enough samples saw packets on a link, and more than is usual for its load."""
    usual = held.above - more
    return held.hop.samples * held.above >= _SEEN + _STANDS_OUT * held.hop.samples * usual
