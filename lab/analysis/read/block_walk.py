"""Find the starts of records in a file in which each record only gives its own length.

Bulk transfers produce long runs of records of equal length. After a few equal lengths, the walk guesses that they
continue. One strided comparison checks all predicted length fields, and the matching records are accepted.
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
    """The layout of records: offset of the length field, bytes to add to that length, and its bounds.

    ``size`` is the size of a record's header, which must be in the data. Total sizes are multiples of ``aligned``.
    """

    length_at: int
    extra: int
    size: int
    smallest: int
    largest: int
    aligned: int
    big_endian: bool


class Walked(NamedTuple):
    """The result of a walk: starts and total sizes of the whole records, and where the next record starts.

    ``next_size`` is the size of the next record, None if its header is incomplete. ``broken``: its length is invalid.
    """

    start: Ints
    total: Ints
    next: int
    next_size: int | None
    broken: bool


def walk(data: Octets, end: int, layout: RecordLayout) -> Walked:
    """Walk the records from byte 0 of ``data[:end]``."""
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
    """Return the number of consecutive whole records of ``size`` bytes from ``at``."""
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
