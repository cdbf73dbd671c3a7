"""What is kept for every flow that there may be takes memory only as it is used: the kernel's own account tells."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from lab.analysis.flows.sparse_arrays import several, table, zeros

_MANY = 2**23
"""64 MiB of int64."""


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_only_what_was_written_is_in_memory() -> None:
    before = _resident()
    column = zeros(_MANY)
    assert not column[:: mmap.PAGESIZE].any()  # who only reads takes nothing
    column[_MANY // 2] = 7
    assert _resident() - before < 2**20
    assert column.sum() == 7
    assert _resident() - before < 2**22


def test_several_arrays_are_each_its_own() -> None:
    before = _resident()
    first, second, third = several(3, _MANY // 8, np.uint32)
    second[:] = 7
    assert len(first) == len(third) == _MANY // 8
    assert 2**22 <= _resident() - before + 2**20 < 2**23  # of the other two there is nothing
    assert not first.any()
    assert not third.any()


def test_a_column_of_a_table_that_nobody_writes_to_takes_nothing() -> None:
    before = _resident()
    rows = table(_MANY // 8, 8, np.int64)
    rows[:, 3] = 1
    assert rows.shape == (_MANY // 8, 8)
    assert rows[5].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert 2**23 <= _resident() - before + 2**20 < 2**24
