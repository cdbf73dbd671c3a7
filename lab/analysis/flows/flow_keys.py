"""Assign numbers to keys of several words, for whole columns, with one 64-bit hash per packet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lab.analysis.flows.sparse_arrays import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.read.packet_batch import Ints

Words = NDArray[np.uint32]


class Keys:
    """Assigns each distinct key a number from 0, for at most ``limit`` keys; further keys get -1.

    Keys with equal hashes would share a number. The multipliers are random for each table, so no file can provoke a
    collision. By chance it happens in one of many millions of captures.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._rows: Words = table(limit, width, np.uint32)
        self._limit = limit
        self._multipliers = list(np.frombuffer(os.urandom(8 * width), np.uint64) | np.uint64(1))
        self._hashes = np.zeros(0, np.uint64)
        self._numbers = np.zeros(0, np.uint32)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def rows(self) -> Words:
        """By number: the words of a key, their lower 32 bits."""
        return self._rows[: len(self)]

    def numbers(self, columns: Sequence[Ints]) -> Ints:
        """Return the number of each row of ``columns``; new keys are added."""
        hashes = self._hash(columns)
        found = self._look_up(hashes)
        new = np.flatnonzero(found < 0)
        if len(new) and len(self) < self._limit:
            self._add(hashes[new], [column[new] for column in columns])
            found = self._look_up(hashes)
        return found

    def find(self, columns: Sequence[Ints]) -> Ints:
        """Return the number of each row of ``columns``, -1 for unknown keys."""
        return self._look_up(self._hash(columns))

    def _hash(self, columns: Sequence[Ints]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        hashes = np.zeros(len(columns[0]), np.uint64)
        for column, multiplier in zip(columns, self._multipliers, strict=True):
            hashes += column.view(np.uint64) * multiplier
        hashes ^= hashes >> np.uint64(29)
        return hashes

    def _look_up(self, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Ints:
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int64)
        place = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[place] == hashes, self._numbers[place].astype(np.int64), -1)

    def _add(self, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], columns: Sequence[Ints]) -> None:
        """Number the new keys in the order of their first occurrence."""
        _, first = np.unique(hashes, return_index=True)
        first = np.sort(first)[: self._limit - len(self)]
        numbers = np.arange(len(self), len(self) + len(first), dtype=np.uint32)
        for index, column in enumerate(columns):
            words = column[first].astype(np.uint32)
            if words.any():  # words that are always 0, like the first of an IPv4 address, take no memory
                self._rows[numbers, index] = words
        everything = np.concatenate([self._hashes, hashes[first]])
        order = np.argsort(everything)
        self._hashes = everything[order]
        self._numbers = np.concatenate([self._numbers, numbers])[order]
