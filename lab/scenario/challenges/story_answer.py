"""The answer of a scenario, which a challenge asks for, and the hints that lead to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RUNGS: Final = ("symptom", "where", "counter", "command", "what it shows")
"""The subject of each hint, from the first to the last."""
NO_FAULT: Final = "capacity"
"""The cause without a fault: a full link that is shared fairly."""
LEVELS: Final = (1, 2, 3)
"""Levels of difficulty: 1, one counter shows it; 2, several must be compared; 3, nothing raises an alarm."""


@dataclass(frozen=True, slots=True)
class StoryAnswer:
    """The cause of a scenario, its places, hints, explanation, fix and prevention."""

    cause: str
    """The name of the cause: that of the scenario, or ``capacity`` if there is no fault."""
    where: tuple[str, ...]
    """Correct places, the most precise first: ``leaf1``, ``leaf1:swp1``, ``leaf1--spine1``."""
    level: int
    """One of LEVELS."""
    workload: str
    """The traffic during the search, without any indication of the fault."""
    hints: tuple[str, str, str, str, str]
    """A hint for each of RUNGS."""
    sign: str
    """A symptom of this cause and no other; completes "then ..."."""
    because: str
    """The root cause, in a sentence or two."""
    fix: str
    """The fix."""
    prevention: str
    """How to prevent the fault, or detect it earlier."""
