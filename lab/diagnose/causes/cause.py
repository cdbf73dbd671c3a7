"""A row of the table of causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.diagnose.symptom import Symptom


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table. ``rival`` is what it is taken for most easily, and ``tell`` tells the two apart."""

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
    """As ``explains``, but only there and at the next node."""
    fault: bool = True
    """Whether something is broken; of capacity that is used up nothing is."""
