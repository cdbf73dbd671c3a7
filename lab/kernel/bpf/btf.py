"""The types of a BPF object, from its BTF: structs as NumPy records, enums, and offsets of variables.

The format is that of <linux/btf.h> and Documentation/bpf/btf.rst, in this processor's byte order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Self

from lab.errors import OperationFailed
from lab.kernel.bpf import elf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

_HEADER: Final = struct.Struct("=HBBIIIII")
"""struct btf_header: magic, version, flags, its length, then offset and length of the types and of the strings."""
_MAGIC: Final = 0xEB9F
_TYPE: Final = struct.Struct("=III")
"""struct btf_type: name; number of records that follow, kind and flag; size or type."""
_FLAG: Final = 1 << 31
_SIGNED: Final = 1 << 24
"""BTF_INT_SIGNED of an integer's encoding."""
_POINTER: Final = 8
"""Bytes of a pointer in eBPF, independent of the processor."""


class _Kind(IntEnum):
    """The kinds BTF_KIND_* that this module uses."""

    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


_ALIASES: Final = (_Kind.TYPEDEF, _Kind.VOLATILE, _Kind.CONST, _Kind.RESTRICT, _Kind.TYPE_TAG)
_ONE: Final = {kind: struct.Struct("=I") for kind in (_Kind.INT, _Kind.VAR, _Kind.DECL_TAG)} | {
    _Kind.ARRAY: struct.Struct("=III")  # type of an element, of an index, number of elements
}
"""The layout of the single record that follows a type of these kinds."""
_MANY: Final = {
    _Kind.STRUCT: struct.Struct("=III"),  # name, type, offset in bits
    _Kind.UNION: struct.Struct("=III"),
    _Kind.ENUM: struct.Struct("=Ii"),  # name, value
    _Kind.FUNC_PROTO: struct.Struct("=II"),
    _Kind.DATASEC: struct.Struct("=III"),  # type, offset and size in bytes
    _Kind.ENUM64: struct.Struct("=III"),
}
"""The layout of each record that follows a type of these kinds. The type has their number."""


@dataclass(frozen=True, slots=True)
class BtfField:
    """The offset and size of a member or variable, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    kind: int
    flag: bool
    size: int
    """Size in bytes; for kinds without a size, the number of the type that they refer to."""
    behind: tuple[tuple[int, ...], ...]


class Types:
    """The types of a BTF section."""

    def __init__(self, data: bytes) -> None:
        """Parse ``data``. Raises OperationFailed if it is no BTF."""
        self._data = data
        try:
            magic, _, _, length, types, size, strings, _ = _HEADER.unpack_from(data)
            self._strings = length + strings
            self._types = list(self._read(length + types, length + types + size))
        except (struct.error, ValueError) as error:
            raise OperationFailed("the types of a BPF object cannot be read") from error
        if magic != _MAGIC:
            raise OperationFailed("the types of a BPF object are none of this processor")
        self._found = {(each.kind, each.name): each for each in self._types if each.name}

    @classmethod
    def of_object(cls, path: Path) -> Self:
        """Return the types of an object file. Raises OperationFailed if it is none, or has no BTF."""
        return cls(elf.section(path, ".BTF"))

    def enumerations(self) -> list[str]:
        """Return the names of all enums, in the order of the section."""
        return [name for kind, name in self._found if kind == _Kind.ENUM]

    def records(self) -> list[str]:
        """Return the names of all structs, in the order of the section."""
        return [name for kind, name in self._found if kind == _Kind.STRUCT]

    def enumeration(self, name: str) -> dict[str, int]:
        """Return the values of an enum by name. Raises OperationFailed if there is no such enum."""
        return {self._name(at): value for at, value in self._named(_Kind.ENUM, name).behind}

    def record(self, name: str) -> np.dtype[Any]:
        """Return a struct with the compiler's layout.

        Raises OperationFailed if there is none, or if NumPy has no type for a member, for example a bit field.
        """
        return self._structure(self._named(_Kind.STRUCT, name))

    def member(self, structure: str, name: str) -> BtfField:
        """Return the place of a struct's member. Raises OperationFailed as ``record``, or if it is missing."""
        fields = self.record(structure).fields
        if fields is None or name not in fields:
            raise OperationFailed(f"struct {structure} of the BPF object has no member {name}")
        layout, offset = fields[name][:2]
        return BtfField(offset, layout.itemsize)

    def variable(self, section: str, name: str) -> BtfField:
        """Return the place of a variable in a section like ``.rodata``. Raises OperationFailed if it is missing."""
        if (_Kind.DATASEC, section) in self._found:
            for of, offset, size in self._found[_Kind.DATASEC, section].behind:
                if self._types[of - 1].name == name:
                    return BtfField(offset, size)
        raise OperationFailed(f"the BPF object has no variable {name} in {section}")

    def _named(self, kind: _Kind, name: str) -> _Type:
        if (kind, name) not in self._found:
            raise OperationFailed(f"the BPF object has no {kind.name.lower()} {name}")
        return self._found[kind, name]

    def _read(self, at: int, end: int) -> Iterator[_Type]:
        """Yield all types in order. The first has the number 1; 0 is void."""
        while at < end:
            name, word, size = _TYPE.unpack_from(self._data, at)
            kind, at = word >> 24 & 0x1F, at + _TYPE.size
            shape = _ONE.get(kind) or _MANY.get(kind)
            length = shape.size * (1 if kind in _ONE else word & 0xFFFF) if shape else 0
            if at + length > end:
                raise ValueError(kind)
            behind = tuple(shape.iter_unpack(self._data[at : at + length])) if shape else ()
            yield _Type(name=self._name(name), kind=kind, flag=bool(word & _FLAG), size=size, behind=behind)
            at += length

    def _name(self, at: int) -> str:
        start = self._strings + at
        return self._data[start : self._data.index(0, start)].decode()

    def _structure(self, of: _Type) -> np.dtype[Any]:
        """Return a struct's dtype. Offsets are in bits; with the flag, their upper 8 bits are a bit field's size."""
        import numpy as np  # noqa: PLC0415 - most importers of this module read no structs

        names, formats, offsets = [], [], []
        for name, member, place in of.behind:
            bits, offset = (place >> 24, place & 0xFFFFFF) if of.flag else (0, place)
            if bits or offset % 8:
                raise _no_type(f"{of.name}.{self._name(name)}")
            names.append(self._name(name))
            formats.append(self._layout(member, f"{of.name}.{names[-1]}"))
            offsets.append(offset // 8)
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": of.size})

    def _layout(self, number: int, where: str) -> np.dtype[Any]:
        import numpy as np  # noqa: PLC0415 - as above

        of = self._types[number - 1]
        while of.kind in _ALIASES:
            of = self._types[of.size - 1]
        match of.kind:
            case _Kind.INT if of.size <= _POINTER:
                return np.dtype(f"{'i' if of.behind[0][0] & _SIGNED else 'u'}{of.size}")
            case _Kind.ENUM:
                return np.dtype(f"{'i' if of.flag else 'u'}{of.size}")
            case _Kind.PTR:
                return np.dtype(f"u{_POINTER}")
            case _Kind.ARRAY:
                ((element, _, count),) = of.behind
                return np.dtype((self._layout(element, where), (count,)))
            case _Kind.STRUCT:
                return self._structure(of)
            case _:
                raise _no_type(where)


def _no_type(where: str) -> OperationFailed:
    return OperationFailed(f"{where} of the BPF object is nothing that NumPy has a type for")
