"""A row of the table of causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.diagnose.symptom import Symptom


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table. ``rival`` is the cause most easily confused with it; ``tell`` distinguishes the two."""

    name: str
    title: str
    needs: tuple[Symptom, ...]
    rival: str
    tell: str
    fix: str
    words: str
    supports: tuple[Symptom, ...] = ()
    excludes: tuple[Symptom, ...] = ()
    explains: tuple[str, ...] = ()
    nearby: tuple[str, ...] = ()
    """Like ``explains``, but only at the same node and adjacent nodes."""
    fallback: bool = False
    """Whether the cause is reported only if no other fault is found."""
    fault: bool = True
    """Whether the cause is a fault; False for exhausted capacity."""
