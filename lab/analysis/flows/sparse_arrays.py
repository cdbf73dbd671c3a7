"""Arrays with an entry for every flow that there may be, in memory only as far as something was written to them."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.analysis.read.packet_batch import Ints

Kind = TypeVar("Kind", bound=np.generic)
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
"""Pages that were only read are all the one page of zeros; of shared memory each would be taken."""


@overload
def zeros(count: int) -> Ints: ...
@overload
def zeros(count: int, kind: type[Kind]) -> NDArray[Kind]: ...
def zeros(count: int, kind: type[Any] = np.int64) -> NDArray[Any]:
    """``count`` zeros. They never move, so that nothing is copied, and no hole left, when there are more flows."""
    octets = mmap.mmap(-1, max(1, count) * np.dtype(kind).itemsize, flags=_PRIVATE)
    octets.madvise(mmap.MADV_NOHUGEPAGE)  # of which one byte would take 2 MB
    return np.frombuffer(octets, kind, count)


@overload
def several(number: int, count: int) -> list[Ints]: ...
@overload
def several(number: int, count: int, kind: type[Kind]) -> list[NDArray[Kind]]: ...
def several(number: int, count: int, kind: type[Any] = np.int64) -> list[NDArray[Any]]:
    """``number`` arrays of ``count`` zeros, for all of which the kernel is asked once."""
    return list(zeros(number * count, kind).reshape(number, count))


@overload
def table(count: int, width: int) -> Ints: ...
@overload
def table(count: int, width: int, kind: type[Kind]) -> NDArray[Kind]: ...
def table(count: int, width: int, kind: type[Any] = np.int64) -> NDArray[Any]:
    """``count`` rows of ``width`` zeros, column by column: a column that nobody writes to takes nothing."""
    return zeros(count * width, kind).reshape(width, count).T
