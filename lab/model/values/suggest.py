"""Suggest a known name for a misspelt one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS: Final = "0123456789"
_MANY: Final = 4


def suggest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return ``did you mean 'leaf1'?`` if a known name is similar, or the range of known numbers.

    Names that differ only in their last number are not similar: leaf77 is no typing error for leaf3.
    """
    names = list(known)
    stem = word[:64].rstrip(_DIGITS)
    numbers = sorted(
        int(name[len(stem) :]) for name in names if name.startswith(stem) and name[len(stem) :].isdecimal()
    )
    if stem not in {"", word} and numbers:
        return f"there is {_ranges(stem, numbers)}"
    close = get_close_matches(word[:64], names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else otherwise


def runs(numbers: Iterable[int]) -> list[list[int]]:
    """Return ascending numbers as runs of first and last number; a run of one has a single entry."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return found


def _ranges(stem: str, numbers: list[int]) -> str:
    """``leaf1 to leaf4, leaf7``; the rest is left out where there are many."""
    texts = [" to ".join(f"{stem}{number}" for number in run) for run in runs(numbers)]
    return ", ".join(texts if len(texts) <= _MANY else [*texts[:_MANY], "..."])
