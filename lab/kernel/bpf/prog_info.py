"""Find the maps of a loaded BPF program by the program's id: for programs that are attached but not pinned."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel.bpf.libbpf import library

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = struct.Struct("=52xIQ")
"""Fields of struct bpf_prog_info of <linux/bpf.h>: the number of maps, and the address for their ids."""
_MAP: Final = struct.Struct("=24x16s")
"""Field of struct bpf_map_info: the name."""
_MAPS: Final = 16


@contextlib.contextmanager
def map_of(program: int, name: str) -> Iterator[int]:
    """Yield a descriptor of the map ``name`` of a loaded program, given by its id.

    Raises OperationFailed if the program is gone or has no such map.
    """
    with contextlib.ExitStack() as stack:
        opened = _opened(stack, library().bpf_prog_get_fd_by_id(program), f"program {program}")
        for number in _maps_of(opened):
            descriptor = _opened(stack, library().bpf_map_get_fd_by_id(number), f"map {number}")
            if _name_of(descriptor) == name:
                yield descriptor
                return
        raise OperationFailed(f"program {program} in the kernel has no map {name}")


def _opened(stack: contextlib.ExitStack, descriptor: int, what: str) -> int:
    if descriptor < 0:
        raise OperationFailed(f"{what} cannot be opened: {os.strerror(-descriptor)}")
    stack.callback(os.close, descriptor)
    return descriptor


def _maps_of(program: int) -> list[int]:
    numbers = (ctypes.c_uint32 * _MAPS)()
    information = ctypes.create_string_buffer(_PROGRAM.pack(_MAPS, ctypes.addressof(numbers)), _PROGRAM.size)
    _describe(program, information)
    return list(numbers[: _PROGRAM.unpack(information.raw)[0]])


def _name_of(descriptor: int) -> str:
    information = ctypes.create_string_buffer(_MAP.size)
    _describe(descriptor, information)
    found: bytes = _MAP.unpack(information.raw)[0]
    return found.rstrip(b"\0").decode()


def _describe(descriptor: int, information: ctypes.Array[Any]) -> None:
    length = ctypes.c_uint32(len(information))
    result: int = library().bpf_obj_get_info_by_fd(descriptor, information, ctypes.byref(length))
    if result < 0:
        raise OperationFailed(f"the kernel does not describe what it loaded: {os.strerror(-result)}")
