"""The header walk of ``lab.wire.walk`` for many frames at once, driven by the same table.

One packet of each shape is walked for all packets of that shape (``packet_templates``). The remaining packets are
walked together, one header per iteration. Offsets come from packets, so each one is checked before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode.field_columns import read_column
from lab.analysis.decode.packet_templates import shapes
from lab.analysis.read.packet_batch import places, rows
from lab.wire.layers import IP_HEADERS, MAX_HEADERS, MAX_TUNNELS, RULES, Header, WalkStop

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Flags, Ints, Octets
    from lab.wire.layers import Rule
    from lab.wire.walk import HeaderWalk

_NOTHING: Final = -1
_ITSELF: Final = 0xFFFFFFFF
_LATER: Final = 0xFFFFFFFE
"""Replaces the number of the next protocol: unknown version of the header itself, or a later fragment."""

ROCEV1: Final = Header.BTH_V1 << 32 | _ITSELF
"""``Strata.other`` of a RoCEv1 packet."""


class Stratum(NamedTuple):
    """A header of the packets in ``row``, at offset ``at``. ``octets`` are its first ``size`` bytes by its rule."""

    header: Header
    row: Ints
    at: Ints
    octets: Octets


class _Followers(NamedTuple):
    keys: Ints
    headers: Ints
    otherwise: int


class Strata:
    """The headers of a batch in ``strata``, from the outside in, and by packet where the walk ended.

    * ``at``: the offset after the last header. ``end``: the end of that header's payload.
    * ``other``: the next protocol, if it is not decoded, for ``other_name``; else -1.
    * ``captured_end`` and ``wire_end`` are offsets in ``data``.
    """

    def __init__(self, data: Octets, start: Ints, captured_end: Ints, wire_end: Ints) -> None:
        count = len(start)
        self.strata: list[Stratum] = []
        self.at, self.end = start.copy(), wire_end.copy()
        self.fault = np.zeros(count, np.int64)
        self.other = np.full(count, _NOTHING)
        self.short = np.zeros(count, np.bool_)
        self._fragment = np.zeros(count, np.bool_)
        self._data, self._captured = data, captured_end
        self._next = np.full(count, int(Header.ETHERNET))
        self._depth = np.full(count, -1)
        self._addressed = np.zeros(count, np.bool_)
        self._of_shapes(start, wire_end)
        self._walk()

    def _of_shapes(self, start: Ints, wire_end: Ints) -> None:
        """Walk one packet of each common shape, and copy the result to the packets alike."""
        for row, found, head in shapes(self._data, start, self._captured - start, wire_end - start):
            where = places(row, len(start))
            begin = start[where]
            for header, at, *_ in found.layers:
                octets = head[:, at : at + RULES[header].size]
                self.strata.append(Stratum(header, row, begin + at, octets))
            self.at[where], self.end[where] = begin + found.at, begin + found.end
            self.fault[where], self.short[where] = found.fault, found.short
            self.other[where], self._next[where] = _other(found), _NOTHING

    def _walk(self) -> None:
        for _ in range(MAX_HEADERS):
            pending = np.flatnonzero(self._next >= 0)
            if not len(pending):
                return
            header = self._next[pending]
            present = np.flatnonzero(np.bincount(header)).tolist()
            for number in present:
                row = pending if len(present) == 1 else pending[header == number]
                self._next[row] = _NOTHING
                self._step(Header(number), row)
        self.fault[self._next >= 0] = WalkStop.DEEP

    def _step(self, header: Header, row: Ints) -> None:
        rule = RULES[header]
        row = self._enter(header, row)
        row = self._whole(rule, row)
        octets = rows(self._data, self.at[row], rule.size).view(np.uint8).reshape(-1, rule.size)
        good = np.ones(len(row), np.bool_)
        for bits, low, high in rule.good:
            value = read_column(bits, octets)
            good &= (low <= value) & (value <= high)
        if not good.all():
            self._refuse(header, row[~good])
            row, octets = row[good], octets[good]
        size = np.full(len(row), rule.size if rule.base is None else rule.base)
        for bits, factor in rule.extra:
            size += read_column(bits, octets) * factor
        if rule.total is not None:
            good = self._ends(rule, row, size, read_column(rule.total, octets))
            if not good.all():
                self.fault[row[~good]] = rule.fault
                row, octets, size = row[good], octets[good], size[good]
        self.strata.append(Stratum(header, row, self.at[row], octets))
        self.at[row] += size
        self._go_on(header, row, octets)

    def _enter(self, header: Header, row: Ints) -> Ints:
        """Count nested frames, and return the packets that do not exceed ``MAX_TUNNELS``."""
        if header is Header.ETHERNET:
            self._depth[row] += 1
            self._addressed[row] = False
        elif header in IP_HEADERS:
            self._depth[row] += self._addressed[row]
            self._addressed[row] = True
        else:
            return row
        deep = self._depth[row] > MAX_TUNNELS
        self.fault[row[deep]] = WalkStop.DEEP
        return row[~deep]

    def _whole(self, rule: Rule, row: Ints) -> Ints:
        """Return the packets whose header was captured and fits into its carrier."""
        after = self.at[row] + rule.size
        cut = after > self._captured[row]
        lost = cut | (after > self.end[row])
        if not lost.any():
            return row
        self.fault[row[lost]] = np.where(cut[lost], WalkStop.CUT, WalkStop.ROOM)
        return row[~lost]

    def _refuse(self, header: Header, row: Ints) -> None:
        if RULES[header].fault is WalkStop.NONE:
            self.other[row] = header << 32 | _ITSELF
        else:
            self.fault[row] = RULES[header].fault

    def _ends(self, rule: Rule, row: Ints, size: Ints, total: Ints) -> Flags:
        """Set the end of the header's payload from its length field; return the packets whose length is valid."""
        at, room = self.at[row], self.end[row]
        end = at + rule.beyond + total
        if rule.open_ended or rule.jumbo:
            end = np.where(total == 0, room, end)
        beyond = end > room
        good: Flags = end >= at + size
        if rule.open_ended:
            self.short[row[beyond & good]] = True
        else:
            good &= ~beyond | self._fragment[row]
        self.end[row] = np.where(good, end, room)
        return good

    def _go_on(self, header: Header, row: Ints, octets: Octets) -> None:
        rule, followers = RULES[header], _FOLLOWERS[header]
        if rule.next is None:
            self.other[row] = header << 32 | _ITSELF
            return
        number = read_column(rule.next, octets)
        following = np.full(len(row), followers.otherwise)
        if len(followers.keys):
            place = np.minimum(np.searchsorted(followers.keys, number), len(followers.keys) - 1)
            following = np.where(followers.keys[place] == number, followers.headers[place], following)
        named = header << 32 | number
        if rule.offset is not None:
            later = read_column(rule.offset, octets) != 0
            following[later] = _NOTHING
            named[later] = header << 32 | _LATER
        if rule.more is not None:
            self._fragment[row] |= read_column(rule.more, octets) != 0
        self._next[row] = following
        self.other[row] = np.where(following < 0, named, _NOTHING)


def _other(found: HeaderWalk) -> int:
    """Return the protocol at which a walk stopped because it is not decoded."""
    if found.fault:
        return _NOTHING
    if found.refused:
        return found.missed << 32 | _ITSELF
    last = found.layers[-1]
    if found.later:
        return last.header << 32 | _LATER
    return last.header << 32 | (_ITSELF if RULES[last.header].next is None else last.number)


def other_name(other: int) -> str:
    """Return the name of a protocol that is not decoded, from a value of ``Strata.other``."""
    header, number = Header(other >> 32), other & 0xFFFFFFFF
    rule = RULES[header]
    if number == _LATER:
        return f"{rule.name.removesuffix(' fragment')} fragment"
    return rule.name if number == _ITSELF else rule.other(number)


def _followers(rule: Rule) -> _Followers:
    keys = sorted(rule.follows)
    headers = [_NOTHING if (found := rule.follows[key]) is None else int(found) for key in keys]
    otherwise = _NOTHING if rule.otherwise is None else int(rule.otherwise)
    return _Followers(np.array(keys, np.int64), np.array(headers, np.int64), otherwise)


_FOLLOWERS: Final = {header: _followers(rule) for header, rule in RULES.items()}
