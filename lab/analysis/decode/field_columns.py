"""Read the fields of ``lab.wire.header_fields`` for many packets at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.analysis.read.packet_batch import Ints, Octets
    from lab.wire.header_fields import Bits

_NUMBERS: Final = (1, 2, 4, 8)
_WORD: Final = 4


def read_column(bits: Bits, octets: Octets) -> Ints:
    """Return a field of each packet. A row of ``octets`` is a header, from its first byte on."""
    value = octets[:, bits.at].astype(np.int64)
    for place in range(bits.at + 1, bits.end):
        value = value << 8 | octets[:, place]
    return bits.of(value)


def record(size: int, fields: Mapping[str, tuple[int, Bits]], **others: tuple[Any, int]) -> np.dtype[Any]:
    """Return a record of ``size`` bytes with the words of ``fields``: each is the offset of a header, and its field.

    A field of more than eight bytes is a row of 32-bit words. ``others`` are formats and offsets.
    """
    found = {name: (_format(bits), start + bits.at) for name, (start, bits) in fields.items()} | others
    formats, offsets = ([each[index] for each in found.values()] for index in range(2))
    return np.dtype({"names": list(found), "formats": formats, "offsets": offsets, "itemsize": size})


def _format(bits: Bits) -> Any:
    return f">u{bits.width}" if bits.width in _NUMBERS else (f">u{_WORD}", bits.width // _WORD)
