"""SplitMix64 as its authors have it: a state that grows, and one output after another."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MASK: Final = 2**64 - 1
_STREAMS: Final = 8
"""Outputs that every packet has to itself."""
LOSS, FRAME, PAYLOAD, PLACE, DUPLICATE = range(5)
"""The decision that each of them makes."""


def outputs(seed: int) -> Iterator[int]:
    """64-bit numbers without end (Steele, Lea and Flood, OOPSLA 2014, figure 17)."""
    state = seed
    while True:
        state = state + 0x9E3779B97F4A7C15 & _MASK
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        yield mixed ^ mixed >> 31


def stream(seed: int, which: int, packets: int) -> list[int]:
    """The output of the first ``packets`` that decides one thing."""
    return list(islice(outputs(seed), which, packets * _STREAMS, _STREAMS))


def chosen(seed: int, which: int, packets: int, probability: float) -> list[int]:
    """The numbers of those of the first ``packets`` that are affected."""
    drawn = stream(seed, which, packets)
    return [number for number, value in enumerate(drawn) if (value >> 32) / 2**32 < probability]
