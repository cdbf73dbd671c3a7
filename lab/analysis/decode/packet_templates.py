"""Packets of one shape: those that are alike in every octet that a walk looks at have the same headers.

Bulk transfers are made of a few shapes. The walk of one packet (``lab.wire.walk``) tells what it looked at; which
others agree in that is a few comparisons for all of them.
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
    from lab.wire.layers import Bits, Rule
    from lab.wire.walk import HeaderWalk

LEAST: Final = 64
"""Packets for which it pays to look for shapes."""
_TRIES: Final = 4
_FEW: Final = 8
"""A shape of which not even one packet in so many is: the others are walked one header after the other."""
_FARTHEST: Final = 248
"""Octets from the start of a packet, of which a batch has so many behind any place."""
_WORD: Final = 8


class Shape(NamedTuple):
    """Packets ``row`` have the headers of ``walk``, with places from the start of each. ``head`` is its octets."""

    row: Ints
    walk: HeaderWalk
    head: Octets


def shapes(data: Octets, start: Ints, captured: Ints, length: Ints) -> Iterator[Shape]:
    """The shapes that many packets have; ``captured`` and ``length`` are bytes kept and on the wire."""
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
    """Which rows have the octets of a packet where ``mask`` is not zero."""
    words, looked_at = head.view(np.uint64), np.frombuffer(mask, np.uint64)
    wanted = np.frombuffer((octets + bytes(len(mask)))[: len(mask)], np.uint64)
    differ = np.zeros(len(head), np.uint64)
    for index in np.flatnonzero(looked_at):
        differ |= (words[:, index] ^ wanted[index]) & looked_at[index]
    alike: Flags = differ == 0
    return alike


def _looked_at(found: HeaderWalk, captured: int) -> bytes:
    """By octet, in whole words: the bits that decided about the walk."""
    looked = [(RULES[layer.header], layer.at) for layer in found.layers]
    if (found.fault or found.refused) and found.at + RULES[found.missed].size <= captured:
        looked.append((RULES[found.missed], found.at))
    size = max((at + rule.size for rule, at in looked), default=_WORD)
    mask = bytearray(-(-size // _WORD) * _WORD)
    for rule, at in looked:
        for bits in _read_by(rule):
            begin, end = at + bits.at, at + bits.at + bits.width
            deciding = (bits.mask << bits.shift) & (256**bits.width - 1)
            mask[begin:end] = (int.from_bytes(mask[begin:end]) | deciding).to_bytes(bits.width)
    return bytes(mask)


def _read_by(rule: Rule) -> Iterator[Bits]:
    """The numbers of a header that a walk reads."""
    yield from (bits for bits, _, _ in rule.good)
    yield from (bits for bits, _ in rule.extra)
    yield from (bits for bits in (rule.next, rule.total, rule.offset, rule.more) if bits is not None)
