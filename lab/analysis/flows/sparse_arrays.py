"""Zeroed arrays with an entry for every possible flow. Only pages that are written take memory."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.analysis.read.packet_batch import Ints

Kind = TypeVar("Kind", bound=np.generic)
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
"""Private pages that were only read share the zero page. Shared memory would allocate each of them."""


@overload
def zeros(count: int) -> Ints: ...
@overload
def zeros(count: int, kind: type[Kind]) -> NDArray[Kind]: ...
def zeros(count: int, kind: type[Any] = np.int64) -> NDArray[Any]:
    """Return an array of ``count`` zeros. It never moves, so more flows cause no copy and no fragmentation."""
    octets = mmap.mmap(-1, max(1, count) * np.dtype(kind).itemsize, flags=_PRIVATE)
    octets.madvise(mmap.MADV_NOHUGEPAGE)  # a huge page would take 2 MB for one byte
    return np.frombuffer(octets, kind, count)


@overload
def several(number: int, count: int) -> list[Ints]: ...
@overload
def several(number: int, count: int, kind: type[Kind]) -> list[NDArray[Kind]]: ...
def several(number: int, count: int, kind: type[Any] = np.int64) -> list[NDArray[Any]]:
    """Return ``number`` arrays of ``count`` zeros, with one mapping for all."""
    return list(zeros(number * count, kind).reshape(number, count))


@overload
def table(count: int, width: int) -> Ints: ...
@overload
def table(count: int, width: int, kind: type[Kind]) -> NDArray[Kind]: ...
def table(count: int, width: int, kind: type[Any] = np.int64) -> NDArray[Any]:
    """Return ``count`` rows of ``width`` zeros, stored by column: a column that is never written takes no memory."""
    return zeros(count * width, kind).reshape(width, count).T
