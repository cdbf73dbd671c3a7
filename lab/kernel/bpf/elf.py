"""Sections of an object file (ELF-64, elf(5))."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC: Final = b"\x7fELF\x02"
_HEADER: Final = struct.Struct("=40xQ10xHHH")
"""The file header's fields: offset of the section headers; their size and number; index of the name section."""
_SECTION: Final = struct.Struct("=I20xQQ24x")
"""A section header's fields: name, offset, length."""


def section(path: Path, name: str) -> bytes:
    """Return a section's content. Raises OperationFailed without a readable object file that has the section."""
    try:
        data = path.read_bytes()
        where, size, count, names = _HEADER.unpack_from(data)
        headers = [_SECTION.unpack_from(data, where + size * number) for number in range(count)]
        if data.startswith(_MAGIC):
            for named, at, length in headers:
                start = headers[names][1] + named
                if data[start : data.index(0, start)] == name.encode() and at + length <= len(data):
                    return data[at : at + length]
    except OSError as error:
        raise OperationFailed(f"{path} cannot be read: {error.strerror}") from error
    except (struct.error, OverflowError, ValueError, IndexError) as error:
        raise OperationFailed(f"{path} is no object file") from error
    raise OperationFailed(f"{path} is no object file with {name}")
