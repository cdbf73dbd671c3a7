"""Where records start, when each one only says where the next is: a plain loop that guesses ahead and verifies.

Bulk transfers make long runs of records of one length. After a few equal lengths the walk supposes that they go on,
looks at all the places where a length would then be with one strided comparison, and takes as many as agree.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Ints, Octets

_SURE: Final = 8  # equal lengths in a row before it is worth guessing
_FIRST_GUESS: Final = 32


class RecordLayout(NamedTuple):
    """How records lie: bytes from a record's start to its length, what to add to that, and its bounds.

    ``size`` is that of a record's header, which must be in the data; ``aligned`` is what totals are multiples of.
    """

    length_at: int
    extra: int
    size: int
    smallest: int
    largest: int
    aligned: int
    big_endian: bool


class Walked(NamedTuple):
    """Starts and total sizes of the whole records, where the next one starts, and why the walk ended there.

    ``next_size`` is None when not even the next header is in the data; ``broken`` when its length cannot be.
    """

    start: Ints
    total: Ints
    next: int
    next_size: int | None
    broken: bool


def walk(data: Octets, end: int, layout: RecordLayout) -> Walked:
    """Follow records from byte 0 of ``data[:end]``."""
    unpack = Struct(">I" if layout.big_endian else "<I").unpack_from
    length_at, extra, mask = layout.length_at, layout.extra, layout.aligned - 1
    starts: list[int] = []
    pieces: list[Ints] = []
    at = streak = previous = 0
    size, broken = None, False
    view, limit = data.data, end - layout.size
    smallest, largest = layout.smallest, layout.largest
    while at <= limit:
        size = unpack(view, at + length_at)[0] + extra
        if size & mask or not smallest <= size <= largest:
            broken = True
            break
        if at + size > end:
            break
        starts.append(at)
        at += size
        streak = streak + 1 if size == previous else 0
        previous = size
        size = None
        if streak >= _SURE:
            run = _run(data, at, end, previous, layout)
            pieces += [np.array(starts, np.int64), at + previous * np.arange(run)]
            starts.clear()
            at += run * previous
            streak = 0
    start = np.concatenate([*pieces, np.array(starts, np.int64)])
    return Walked(start, np.diff(start, append=at), at, size, broken)


def _run(data: Octets, at: int, end: int, size: int, layout: RecordLayout) -> int:
    """How many whole records of ``size`` bytes follow each other from ``at``."""
    kind = np.dtype(">u4" if layout.big_endian else "<u4")
    fit = (end - at) // size
    found, guess = 0, _FIRST_GUESS
    while found < fit:
        count = min(guess, fit - found)
        lengths = np.ndarray((count,), kind, data, at + found * size + layout.length_at, (size,))
        wrong = lengths != size - layout.extra
        first = int(wrong.argmax())
        if wrong[first]:
            return found + first
        found += count
        guess *= 4
    return found
