"""What is wrong in a story: the answer that a challenge asks for, and the ladder of hints that leads to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RUNGS: Final = ("symptom", "where", "counter", "command", "what it shows")
"""What each hint is about, from the first to the last."""
LEVELS: Final = (1, 2, 3)
"""How hard it is: one counter tells; several have to be compared; nothing alarms."""


@dataclass(frozen=True, slots=True)
class StoryAnswer:
    """The cause of a story, its places, and the words with which it is hinted at, told and prevented."""

    cause: str
    """Its name: that of the scenario, or ``capacity`` where nothing is at fault."""
    where: tuple[str, ...]
    """Places that are right, the most exact first: ``leaf1``, ``leaf1:swp1``, ``leaf1--spine1``."""
    level: int
    """One of LEVELS."""
    workload: str
    """Who does what while it is looked for: no word of what is wrong."""
    hints: tuple[str, str, str, str, str]
    """One for each of RUNGS."""
    sign: str
    """What is so where this is the cause, and with no other: completes "then ..."."""
    because: str
    """The root cause, in a sentence or two."""
    fix: str
    """What mends it."""
    prevention: str
    """What keeps it from coming back, or tells of it sooner."""
