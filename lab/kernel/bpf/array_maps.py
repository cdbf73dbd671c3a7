"""Array maps of BPF programs as NumPy arrays: the kernel's memory, read and written without system calls."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.errors import OperationFailed
from lab.kernel.bpf.libbpf import library

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_INFO: Final = struct.Struct("=6I")
"""The beginning of struct bpf_map_info: type, id, key size, value size, entries, flags."""


def mapped(descriptor: int, layout: DTypeLike, *, writable: bool = False) -> NDArray[Any]:
    """Return an array map (BPF_F_MMAPABLE) as an array of all its entries: the kernel's memory, not a copy.

    Unless ``writable`` is set, NumPy and the MMU both reject writes. ``layout`` is the type of one entry. The
    descriptor may be closed afterwards: the memory stays mapped while the array exists.

    Raises OperationFailed if ``layout`` has another size than the map's values, or if the map cannot be mapped.
    """
    wanted = np.dtype(layout)
    value, entries = _shape(descriptor)
    if wanted.itemsize != value:
        raise OperationFailed(f"the map's values have {value} bytes, and their description {wanted.itemsize}")
    stride = -(-value // 8) * 8  # the kernel rounds each entry up (array_map_alloc in kernel/bpf/arraymap.c)
    try:
        access = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
        memory = mmap.mmap(descriptor, entries * stride, prot=access)
    except OSError as error:
        raise OperationFailed(f"the map cannot be mapped into memory: {error.strerror}") from error
    return np.ndarray((entries,), wanted, memory, strides=(stride,))


def entries(descriptor: int) -> int:
    """Return the number of entries of a map."""
    return _shape(descriptor)[1]


def _shape(descriptor: int) -> tuple[int, int]:
    """Return the size of a map's values in bytes, and its number of entries."""
    head = ctypes.create_string_buffer(_INFO.size)
    length = ctypes.c_uint32(_INFO.size)
    result: int = library().bpf_obj_get_info_by_fd(descriptor, head, ctypes.byref(length))
    if result < 0:
        raise OperationFailed(f"the kernel does not describe the map: {os.strerror(-result)}")
    _, _, _, value, entries, _ = _INFO.unpack(head.raw)
    return value, entries
