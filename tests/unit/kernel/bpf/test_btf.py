"""Types that are put together by hand, word by word as <linux/btf.h> has them, and files that are no objects."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.errors import OperationFailed
from lab.kernel.bpf import btf, elf
from lab.kernel.bpf.btf import BtfField, Types

if TYPE_CHECKING:
    from pathlib import Path

INT, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, CONST, FUNC, PROTO, VAR, DATASEC = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    13,
    14,
    15,
)
SIGNED = 1 << 24


class Writer:
    """Types in the order in which they are added; the first has the number 1."""

    def __init__(self) -> None:
        self.types, self.strings = b"", b"\0"

    def text(self, name: str) -> int:
        self.strings += name.encode() + b"\0"
        return len(self.strings) - len(name) - 1 if name else 0

    def add(self, kind: int, name: str, size: int, *behind: int, count: int = 0, flag: int = 0) -> None:
        self.types += struct.pack("=III", self.text(name), flag << 31 | kind << 24 | count, size)
        self.types += b"".join(struct.pack("=i" if word < 0 else "=I", word) for word in behind)

    def struct(self, name: str, size: int, *members: tuple[str, int, int], flag: int = 0, kind: int = STRUCT) -> None:
        words = [word for member, of, bits in members for word in (self.text(member), of, bits)]
        self.add(kind, name, size, *words, count=len(members), flag=flag)

    def done(self) -> bytes:
        places = (0, len(self.types), len(self.types), len(self.strings))
        return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, *places) + self.types + self.strings


def written() -> Writer:
    """typedef unsigned int word; struct small {signed char first; long second;}, and what there is made of them."""
    made = Writer()
    made.add(INT, "unsigned int", 4, 32)  # 1
    made.add(TYPEDEF, "word", 1)  # 2
    made.add(INT, "long", 8, SIGNED | 64)  # 3
    made.add(INT, "signed char", 1, SIGNED | 8)  # 4
    made.struct("small", 16, ("first", 4, 0), ("second", 3, 64))  # 5
    made.add(ARRAY, "", 0, 5, 1, 3)  # 6: small[3]
    made.add(ARRAY, "", 0, 2, 1, 2)  # 7: word[2]
    made.add(ARRAY, "", 0, 7, 1, 4)  # 8: word[4][2]
    made.add(ENUM, "colour", 4, made.text("RED"), -1, made.text("BLUE"), 7, count=2, flag=1)  # 9
    made.add(PTR, "", 0)  # 10: void *
    made.add(PROTO, "", 1, made.text("argument"), 3, count=1)  # 11
    made.add(FUNC, "work", 11)  # 12
    made.add(CONST, "", 2)  # 13
    made.add(VAR, "limit", 13, 1)  # 14
    made.add(DATASEC, ".rodata", 8, 14, 4, 4, count=1)  # 15
    made.struct("large", 104, ("each", 6, 0), ("colour", 9, 384), ("table", 8, 416), ("next", 10, 704))  # 16
    made.struct("either", 8, ("one", 1, 0), ("other", 3, 0), kind=UNION)  # 17
    made.struct("chosen", 8, ("which", 17, 0))  # 18
    made.struct("bits", 4, ("low", 1, 3 << 24 | 0), flag=1)  # 19
    made.struct("whole", 8, ("low", 1, 0), ("high", 1, 32), flag=1)  # 20
    made.struct("empty", 0)  # 21
    return made


@pytest.fixture
def types() -> Types:
    return Types(written().done())


class Small(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int8), ("second", ctypes.c_int64))


class Large(ctypes.Structure):
    """The same structure, laid out by ctypes."""

    _fields_ = (
        ("each", Small * 3),
        ("colour", ctypes.c_int32),
        ("table", ctypes.c_uint32 * 2 * 4),
        ("next", ctypes.c_uint64),
    )


def _of(layout: type[ctypes.Structure]) -> np.dtype[Any]:
    return np.dtype(layout)


def test_a_record_is_where_ctypes_puts_it(types: Types) -> None:
    record, wanted = types.record("large"), _of(Large)
    assert record.fields is not None
    assert wanted.fields is not None
    assert {name: field[1] for name, field in record.fields.items()} == {
        name: field[1] for name, field in wanted.fields.items()
    }
    for name in ("colour", "table", "next"):
        assert record[name] == wanted[name]
    assert record["each"].shape == (3,)
    assert record["each"].base.fields == wanted["each"].base.fields
    assert record["each"].itemsize == ctypes.sizeof(Small) * 3
    assert record.itemsize == 104
    assert types.member("large", "table") == BtfField(Large.table.offset, 32)


def test_places_and_numbers_by_name(types: Types) -> None:
    assert types.enumeration("colour") == {"RED": -1, "BLUE": 7}
    assert types.variable(".rodata", "limit") == BtfField(4, 4)
    assert types.record("whole").names == ("low", "high")
    assert types.record("empty").itemsize == 0


@pytest.mark.parametrize("name", ["chosen", "bits"])
def test_what_numpy_has_no_type_for_is_named(types: Types, name: str) -> None:
    with pytest.raises(OperationFailed, match=rf"^{name}\.(which|low) of the BPF object is nothing that NumPy has"):
        types.record(name)


def test_what_is_not_there_is_named(types: Types) -> None:
    with pytest.raises(OperationFailed, match=r"has no struct colour$"):
        types.record("colour")
    with pytest.raises(OperationFailed, match=r"has no enum small$"):
        types.enumeration("small")
    with pytest.raises(OperationFailed, match=r"^struct small of the BPF object has no member third$"):
        types.member("small", "third")
    for section, name in ((".rodata", "least"), (".data", "limit")):
        with pytest.raises(OperationFailed, match=rf"has no variable {name} in \{section}$"):
            types.variable(section, name)


def test_what_is_cut_or_of_another_processor_is_refused() -> None:
    whole = written().done()
    for length in range(0, len(whole) - 1, 7):
        with pytest.raises(OperationFailed, match="the types of a BPF object"):
            Types(whole[:length])
    with pytest.raises(OperationFailed, match="none of this processor"):
        Types(b"\xeb\x9f" + whole[2:])


def test_a_section_of_an_object_file(tmp_path: Path) -> None:
    """One with two sections: the names of both, and BTF."""
    names = b"\0.shstrtab\0.BTF\0"
    data = written().done()
    header = b"\x7fELF\x02\x01\x01" + bytes(33) + struct.pack("=QIHHHHHH", 64, 0, 64, 0, 0, 64, 3, 1)
    sections = bytes(64)
    for name, place, length in ((1, 256, len(names)), (11, 256 + len(names), len(data))):
        sections += struct.pack("=IIQQQQIIQQ", name, 1, 0, 0, place, length, 0, 0, 1, 0)
    path = tmp_path / "made.o"
    path.write_bytes(header + sections + names + data)
    assert elf.section(path, ".BTF") == data
    assert btf.Types.of_object(path).enumeration("colour")["BLUE"] == 7
    with pytest.raises(OperationFailed, match=r"made\.o is no object file with \.text$"):
        elf.section(path, ".text")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OperationFailed, match=r"made\.o is no object file with \.BTF$"):
        elf.section(path, ".BTF")


@pytest.mark.parametrize("content", [None, b"", b"not an object", b"\x7fELF\x02" + b"\xff" * 59, bytes(64)])
def test_a_file_that_is_no_object_is_one_clear_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "wrong.o"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OperationFailed, match=r"wrong\.o (is no object file|cannot be read)"):
        elf.section(path, ".BTF")
