"""The structs and enums that BPF programs share with user space, in a JSON file beside their C source.

The file is generated from the object's BTF (``python -m tests.vm.build_objects``) and checked in. Modules with these
layouts can therefore be imported without an object, a compiler or BTF. ``compile_checked`` compares the object's BTF
with the file before the object is loaded.

A struct has its size in bytes, and its fields by name as ``OFFSET TYPE`` or ``OFFSET TYPE[COUNT]``. A type is an
integer (``u8``: 8 bytes, unsigned) or another struct of the file.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from lab.errors import OperationFailed
from lab.kernel.bpf import btf, clang

if TYPE_CHECKING:
    from pathlib import Path

_OURS: Final = "rl_"
"""Prefix of rocelab's structs and enums; the BTF of an object has the kernel's as well."""
_FIELD: Final = re.compile(r"(\d+) ([\w.]+?)((?:\[\d+\])*)")
_INTEGER: Final = re.compile(r"[iu][1248]")
_REMEDY: Final = "python -m tests.vm.build_objects"


class TypeLayouts:
    """Structs as NumPy records, and enums, by their C names."""

    def __init__(self, enums: dict[str, dict[str, int]], structs: dict[str, dict[str, Any]]) -> None:
        self.enums = enums
        self.structs = structs

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the layouts of a file. Raises OperationFailed if it cannot be read."""
        try:
            content = json.loads(path.read_text())
            return cls(content["enums"], content["structs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OperationFailed(f"{path} cannot be read as layouts of BPF structs", _REMEDY) from error

    @classmethod
    def of_object(cls, path: Path) -> Self:
        """Return the layouts of an object's BTF. Raises OperationFailed without BTF, or for bit fields."""
        types = btf.Types.of_object(path)
        enums = {name: types.enumeration(name) for name in types.enumerations() if name.startswith(_OURS)}
        records = {name: types.record(name) for name in types.records() if name.startswith(_OURS)}
        return cls(enums, _Writer(records).structs)

    def write(self, path: Path) -> None:
        """Write the file that ``read`` reads."""
        path.write_text(json.dumps({"enums": self.enums, "structs": self.structs}, indent=1) + "\n")

    def enumeration(self, name: str) -> dict[str, int]:
        """Return the values of an enum by name. Raises OperationFailed if there is no such enum."""
        if name not in self.enums:
            raise OperationFailed(f"there is no layout of enum {name}", _REMEDY)
        return self.enums[name]

    def record(self, name: str) -> np.dtype[Any]:
        """Return a struct with the compiler's layout. Raises OperationFailed if there is no such struct."""
        if name not in self.structs:
            raise OperationFailed(f"there is no layout of struct {name}", _REMEDY)
        struct = self.structs[name]
        fields = [self._field(each) for each in struct["fields"].values()]
        offsets, formats = [offset for offset, _ in fields], [layout for _, layout in fields]
        names = list(struct["fields"])
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": struct["size"]})

    def differences(self, other: TypeLayouts) -> list[str]:
        """Return the names of structs and enums that differ, in alphabetical order."""
        pairs = ((self.enums, other.enums), (self.structs, other.structs))
        return sorted(
            name for ours, theirs in pairs for name in ours | theirs if not _alike(ours.get(name), theirs.get(name))
        )

    def _field(self, text: str) -> tuple[int, np.dtype[Any]]:
        found = _FIELD.fullmatch(text)
        if found is None:
            raise OperationFailed(f"there is no layout {text!r} of a field", _REMEDY)
        offset, of, counts = found.groups()
        layout = np.dtype(of) if _INTEGER.fullmatch(of) else self.record(of)
        for count in reversed(re.findall(r"\d+", counts)):
            layout = np.dtype((layout, (int(count),)))
        return int(offset), layout


def beside(source: Path) -> Path:
    """Return the path of a C source's layout file."""
    return source.with_name(f"{source.stem}.layout.json")


@functools.cache
def compile_checked(source: Path) -> Path:
    """Return the object of a C source, as ``clang.compile_bpf`` does, after a check of its layouts.

    A process reads the source and its headers once, like its own modules: in a VM each read of a file of the checkout
    waits for the host, and virtual time goes on meanwhile.

    OperationFailed names the structs whose layout differs: the source was changed, but not the layout file.
    """
    path = clang.compile_bpf(source)
    require_layouts(path, beside(source))
    return path


def require_layouts(path: Path, layouts: Path) -> None:
    """Raise OperationFailed unless an object's structs and enums match a layout file."""
    if differing := TypeLayouts.read(layouts).differences(TypeLayouts.of_object(path)):
        raise OperationFailed(f"{layouts} is out of date: {', '.join(differing)} of {path.name} differ", _REMEDY)


class _Writer:
    """Builds the structs of a layout file. A nested struct without a name of rocelab's is named by its field."""

    def __init__(self, records: dict[str, np.dtype[Any]]) -> None:
        self._names = {record: name for name, record in records.items()}
        self.structs: dict[str, dict[str, Any]] = {}
        for name, record in records.items():
            self._add(name, record)

    def _add(self, name: str, record: np.dtype[Any]) -> None:
        fields = {
            field: f"{place} {self._type(layout, f'{name}.{field}')}"
            for field, (layout, place, *_) in (record.fields or {}).items()
        }
        self.structs[name] = {"size": record.itemsize, "fields": fields}

    def _type(self, layout: np.dtype[Any], where: str) -> str:
        counts = ""
        while layout.subdtype is not None:
            layout, shape = layout.subdtype
            counts += "".join(f"[{count}]" for count in shape)
        if layout.fields is None:
            return layout.str[1:] + counts
        if layout not in self._names:
            self._names[layout] = where
            self._add(where, layout)
        return self._names[layout] + counts


def _alike(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Compare including the order of members, which is that of the declaration."""
    return json.dumps(one) == json.dumps(other)
