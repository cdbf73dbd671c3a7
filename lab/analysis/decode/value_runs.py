"""Runs of equal values in a column: where they begin and end, and what came before.

Called many times for each batch, where np.diff and np.roll, which copy more, were a fifth of an analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Flags, Ints


def starts(values: Ints) -> Ints:
    """Where each run begins."""
    return np.flatnonzero(are_starts(values))


def ends(values: Ints) -> Ints:
    """Where each run has its last value."""
    marks = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=marks[:-1])
    return np.flatnonzero(marks)


def are_starts(values: Ints) -> Flags:
    """By place: a run begins there."""
    marks = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=marks[1:])
    return marks


def before(values: Ints) -> Ints:
    """By place: the value before; at the first place anything."""
    shifted = np.empty_like(values)
    shifted[1:] = values[:-1]
    shifted[:1] = 0
    return shifted
