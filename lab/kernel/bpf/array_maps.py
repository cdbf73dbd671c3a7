"""Maps of BPF programs: array maps as NumPy arrays, which are the kernel's memory, and copies of hash maps."""

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


def hash_items(descriptor: int, key: DTypeLike, value: DTypeLike) -> list[tuple[Any, Any]]:
    """Return a copy of a hash map: each key and value as a NumPy record.

    An entry that is removed meanwhile may be missing. Raises OperationFailed if a description has another size.
    """
    keys, values = np.dtype(key), np.dtype(value)
    if (keys.itemsize, values.itemsize) != _sizes(descriptor)[:2]:
        raise OperationFailed("the hash map's keys and values have another size than their description")
    found: dict[bytes, bytes] = {}
    here, following = (ctypes.create_string_buffer(keys.itemsize) for _ in range(2))
    held = ctypes.create_string_buffer(values.itemsize)
    before: Any = None
    for _ in range(entries(descriptor) + 1):
        if library().bpf_map_get_next_key(descriptor, before, following) < 0:
            break
        here.raw = following.raw
        before = here
        if library().bpf_map_lookup_elem(descriptor, here, held) == 0:
            found[here.raw] = held.raw
    return [(np.frombuffer(of, keys)[0], np.frombuffer(is_, values)[0]) for of, is_ in found.items()]


def _shape(descriptor: int) -> tuple[int, int]:
    """Return the size of a map's values in bytes, and its number of entries."""
    return _sizes(descriptor)[1:]


def _sizes(descriptor: int) -> tuple[int, int, int]:
    """Return the sizes of a map's keys and values in bytes, and its number of entries."""
    head = ctypes.create_string_buffer(_INFO.size)
    length = ctypes.c_uint32(_INFO.size)
    result: int = library().bpf_obj_get_info_by_fd(descriptor, head, ctypes.byref(length))
    if result < 0:
        raise OperationFailed(f"the kernel does not describe the map: {os.strerror(-result)}")
    _, _, key, value, entries, _ = _INFO.unpack(head.raw)
    return key, value, entries
