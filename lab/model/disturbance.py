"""Delay, jitter and reordering of packets on a cable, from a seeded generator.

Packets of the matching priorities are numbered from 0. The treatment of a packet depends only on the seed and its
number.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import InvalidInput, Problem
from lab.model.values import non_default_json

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIORITIES: Final = 8
LONGEST: Final = 60.0
"""The longest delay, jitter or hold, in seconds."""
FARTHEST: Final = 1000
"""The most packets that may overtake one packet."""
_UNIT: Final = 2**32
_NAME: Final = "<disturbance>"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbed cable at an emulated port, on egress. The defaults disturb nothing.

    - ``delay``: seconds added to every packet, PFC frames included, as by a longer cable.
    - ``jitter``: the most seconds added to a packet, uniformly distributed. Order is kept: the packets behind it
      wait, so that a burst follows a gap.
    - ``reorder``: probability that the next ``distance`` packets at the cable's end overtake a packet. If fewer
      packets arrive, the packet leaves ``hold`` seconds late.
    - ``priorities``: priorities with jitter and reordering; ``None``: all. PFC frames have no jitter of their own and
      are never overtaken.
    """

    delay: float = 0.0
    jitter: float = 0.0
    reorder: float = 0.0
    distance: int = 1
    hold: float = 0.01
    priorities: frozenset[int] | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise InvalidInput with every field that is wrong."""
        problems = list(_problems(self))
        if problems:
            raise InvalidInput(_NAME, problems)

    @property
    def does_nothing(self) -> bool:
        """Whether the cable disturbs no packet."""
        return not (self.delay or self.jitter or self.reorder)


def dump(disturbance: Disturbance) -> str:
    """Return the disturbance as JSON for ``restore``, without fields at their defaults."""
    return non_default_json.dump(disturbance)


def restore(text: str) -> Disturbance:
    """Return the disturbance from the JSON of ``dump``; raise InvalidInput if the text is damaged."""
    try:
        kept: dict[str, Any] = json.loads(text)
        if kept.get("priorities") is not None:
            kept["priorities"] = frozenset(kept["priorities"])
        return Disturbance(**kept)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(_NAME, [Problem("", "is damaged", "heal the fault and inject it again")]) from error


def _problems(asked: Disturbance) -> Iterator[Problem]:
    for name in ("delay", "jitter", "hold"):
        if not _within(getattr(asked, name), LONGEST):
            yield Problem(name, f"goes from 0 to {LONGEST:g} s", "take a time in between")
    if not _within(asked.reorder, 1):
        yield Problem("reorder", "is no probability", "take a number from 0 to 1")
    elif asked.reorder and not round(asked.reorder * _UNIT):
        yield Problem("reorder", "is less than any packet will meet", "take at least 2.4e-10")
    for name, least, most in (("distance", 1, FARTHEST), ("seed", 0, 2**64 - 1)):
        value = getattr(asked, name)
        if not (isinstance(value, int) and least <= value <= most):
            yield Problem(name, f"goes from {least} to {most}", "take a number in between")
    if asked.priorities is not None and not asked.priorities <= frozenset(range(PRIORITIES)):
        yield Problem("priorities", f"goes from 0 to {PRIORITIES - 1}", "take numbers in between")
    if asked.priorities is not None and not asked.priorities:
        yield Problem("priorities", "matches nothing", "leave it out to match everything")


def _within(value: object, most: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= most
