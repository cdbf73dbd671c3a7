"""Group packets by shape: equal lengths, and equal bits in every field that the header walk reads.

Packets of one shape have the same headers at the same offsets. Bulk transfers consist of a few shapes, so one walk
(``lab.wire.walk``) and a few comparisons decode most packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.read.packet_batch import places, rows
from lab.wire.layers import RULES
from lab.wire.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.read.packet_batch import Flags, Ints, Octets
    from lab.wire.header_fields import Bits
    from lab.wire.layers import Rule
    from lab.wire.walk import HeaderWalk

LEAST: Final = 64
"""Fewer packets than this are not grouped."""
_TRIES: Final = 4
_FEW: Final = 8
"""Grouping stops if a shape has less than one packet in 8; the rest is walked header by header."""
_FARTHEST: Final = 248
"""Bytes from the start of a packet. A batch has that many readable bytes after every offset."""
_WORD: Final = 8


class Shape(NamedTuple):
    """Packets ``row`` have the headers of ``walk``, at offsets from their start. ``head`` is their first bytes."""

    row: Ints
    walk: HeaderWalk
    head: Octets


def shapes(data: Octets, start: Ints, captured: Ints, length: Ints) -> Iterator[Shape]:
    """Yield the shapes that many packets have. ``captured`` and ``length`` are bytes kept and on the wire."""
    row = np.arange(len(start))
    for _ in range(_TRIES):
        if len(row) < LEAST:
            return
        sample = int(row[len(row) // 2])
        where = places(row, len(start))
        octets = data[start[sample] : start[sample] + captured[sample]].tobytes()
        found = walk(octets, int(length[sample]))
        mask = _looked_at(found, len(octets))
        if len(mask) > _FARTHEST:
            return
        head = rows(data, start[where], len(mask)).view(np.uint8).reshape(-1, len(mask))
        alike = (captured[where] == captured[sample]) & (length[where] == length[sample]) & _agree(head, octets, mask)
        count = int(np.count_nonzero(alike))
        if count * _FEW < len(row):
            return
        if count == len(row):
            yield Shape(row, found, head)
            return
        yield Shape(row[alike], found, head[alike])
        row = row[~alike]


def _agree(head: Octets, octets: bytes, mask: bytes) -> Flags:
    """Return the rows that equal ``octets`` in every bit of ``mask``."""
    words, looked_at = head.view(np.uint64), np.frombuffer(mask, np.uint64)
    wanted = np.frombuffer((octets + bytes(len(mask)))[: len(mask)], np.uint64)
    differ = np.zeros(len(head), np.uint64)
    for index in np.flatnonzero(looked_at):
        differ |= (words[:, index] ^ wanted[index]) & looked_at[index]
    alike: Flags = differ == 0
    return alike


def _looked_at(found: HeaderWalk, captured: int) -> bytes:
    """Return a mask of the bits that the walk read, padded to whole words."""
    looked = [(RULES[layer.header], layer.at) for layer in found.layers]
    if (found.fault or found.refused) and found.at + RULES[found.missed].size <= captured:
        looked.append((RULES[found.missed], found.at))
    size = max((at + rule.size for rule, at in looked), default=_WORD)
    mask = bytearray(-(-size // _WORD) * _WORD)
    for rule, at in looked:
        for bits in _read_by(rule):
            begin, end = at + bits.at, at + bits.end
            mask[begin:end] = (int.from_bytes(mask[begin:end]) | bits.deciding).to_bytes(bits.width)
    return bytes(mask)


def _read_by(rule: Rule) -> Iterator[Bits]:
    """Yield the fields of a header that a walk reads."""
    yield from (bits for bits, _, _ in rule.good)
    yield from (bits for bits, _ in rule.extra)
    yield from (bits for bits in (rule.next, rule.total, rule.offset, rule.more) if bits is not None)
