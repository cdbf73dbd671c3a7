"""Where a BPF object keeps what: variables of its sections and members of its structures, by its own BTF.

The layout of the records is that of <linux/btf.h>.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.libbpf import library

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPE: Final = struct.Struct("=III")
"""struct btf_type: name, kind and number of records behind it, size or type."""
_MEMBER: Final = struct.Struct("=III")
"""struct btf_member: name, type, offset in bits."""
_VARIABLE: Final = struct.Struct("=III")
"""struct btf_var_secinfo: type, offset in bytes, size in bytes."""
_ARRAY: Final = struct.Struct("=III")
"""struct btf_array: element type, index type, number of elements."""
_COUNT_MASK: Final = 0xFFFF
_KIND_DATASEC: Final = 15


@dataclass(frozen=True, slots=True)
class Place:
    """Offset and size in bytes."""

    offset: int
    size: int


def variable(types: int, section: str, name: str) -> Place:
    """The place of a variable in a section such as ``.rodata``; OperationFailed when there is no such variable."""
    found: int = library().btf__find_by_name_kind(types, section.encode(), _KIND_DATASEC)
    if found > 0:
        for kind, offset, size in _records(types, found, _VARIABLE):
            if _name(types, _record(types, kind)[0]) == name:
                return Place(offset, size)
    raise OperationFailed(f"the BPF object has no variable {name} in {section}")


def text_member(types: int, structure: int, name: str) -> Place:
    """The place of the character array ``name`` in a structure; OperationFailed when it has no such member."""
    for named, kind, bits in _records(types, structure, _MEMBER):
        if _name(types, named) == name:
            _, _, elements = _ARRAY.unpack(_behind(types, kind, _ARRAY.size))
            return Place(bits // 8, elements)
    raise OperationFailed(f"the BPF object's structure has no member {name}")


def _records(types: int, identity: int, layout: struct.Struct) -> Iterator[tuple[int, int, int]]:
    count = _record(types, identity)[1] & _COUNT_MASK
    yield from layout.iter_unpack(_behind(types, identity, count * layout.size))


def _record(types: int, identity: int) -> tuple[int, int, int]:
    return _TYPE.unpack(ctypes.string_at(_address(types, identity), _TYPE.size))


def _behind(types: int, identity: int, size: int) -> bytes:
    return ctypes.string_at(_address(types, identity) + _TYPE.size, size)


def _address(types: int, identity: int) -> int:
    address: int | None = library().btf__type_by_id(types, identity)
    if address is None:
        raise OperationFailed(f"the BPF object has no type {identity}")
    return address


def _name(types: int, offset: int) -> str:
    text: bytes = library().btf__name_by_offset(types, offset)
    return text.decode()
