"""A filter on a whole batch: conditions as arithmetic on columns, with the same answers as ``lab.wire.filter.match``.

What columns do not tell apart (damaged and tiny packets, tunnels in tunnels) that module decides, packet by packet.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.columns import VXLAN_PORT, Kind, decode, layers, rows
from lab.wire import frame
from lab.wire.filter.expression import All, Any, Expression, Field, Host, Not, Side, Within, quick
from lab.wire.filter.match import ANSWERS, matches
from lab.wire.frame import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.analysis.batch import Batch, Flags, Ints
    from lab.analysis.columns import Columns, Roce
    from lab.wire.filter.expression import Address

_TINY: Final = 60
"""Bytes: less than a frame of Ethernet, so headers may end anywhere."""


def chosen(expression: Expression, batch: Batch, names: Sequence[str] = ()) -> Flags:
    """By packet: whether the filter lets it through; ``names`` are those of the interfaces."""
    columns, roce = decode(batch)
    facts = _Facts(batch, columns, roce)
    found, possible = _decide(expression, facts)
    for row in np.flatnonzero(facts.unsure() | (possible & ~found)).tolist():
        begin = int(batch.start[row])
        octets = batch.data[begin : begin + int(batch.captured[row])].tobytes()
        link = names[int(batch.interface[row])] if names else ""
        found[row] = matches(expression, frame.decode(octets, int(batch.length[row])), link)
    return found


def _decide(expression: Expression, facts: _Facts) -> tuple[Flags, Flags]:
    """By packet: whether it is let through for certain, and whether it may be."""
    match expression:
        case All(terms):
            certain, possible = zip(*(_decide(term, facts) for term in terms), strict=True)
            return reduce(np.logical_and, certain), reduce(np.logical_and, possible)
        case Any(terms):
            certain, possible = zip(*(_decide(term, facts) for term in terms), strict=True)
            return reduce(np.logical_or, certain), reduce(np.logical_or, possible)
        case Not(term):
            sure, likely = _decide(term, facts)
            return ~likely, ~sure
        case Host(side, addresses) if quick(expression):
            found = facts.any_of(facts.hosts(side, address) for address in addresses)
            return found, found
        case Within(field, ranges) if field.quick:
            places = list(facts.values(field))
            found = facts.any_of(
                at[(first <= value) & (value <= last)] for at, value in places for first, last in ranges
            )
            return found, found
        case _:
            nothing = facts.any_of(())
            return nothing, ~nothing


class _Layer:
    """IP headers of the packets in ``at``: those that the columns are about, or the outer ones of tunnels."""

    def __init__(self, batch: Batch, at: Ints, columns: Columns) -> None:
        has_address = (columns.src != 0).any(axis=0) | (columns.dst != 0).any(axis=0)
        head = rows(batch.data, columns.ip, 2).view(">u2").astype(np.int64)
        self.nameless = at[~has_address & (head >> 12 == 6)]
        """Might be IPv6 from :: to ::, which columns cannot tell from what is no IP."""
        known = np.flatnonzero(has_address)
        self.at = at[known]
        self.src, self.dst = columns.src[:, known], columns.dst[:, known]
        self.version = head[known] >> 12
        self.tos = np.where(self.version == 4, head[known] & 0xFF, head[known] >> 4 & 0xFF)

    def hosts(self, side: Side, address: Address) -> Iterator[Ints]:
        octets = address.packed if address.version == 6 else b"\0" * 10 + b"\xff\xff" + address.packed
        words = np.frombuffer(octets, ">u4").astype(np.int64)[:, np.newaxis]
        for mine, where in ((Side.SOURCE, self.src), (Side.DESTINATION, self.dst)):
            if side in {mine, Side.ANY}:
                yield self.at[(where == words).all(axis=0) & (self.version == address.version)]


class _Facts:
    """What a filter asks about a batch, as places in it."""

    def __init__(self, batch: Batch, columns: Columns, roce: Roce) -> None:
        self._batch, self._columns, self._roce = batch, columns, roce
        self._layers = [_Layer(batch, np.arange(len(batch.start)), columns)]
        self._tunnels = np.flatnonzero(columns.vni >= 0)
        if len(self._tunnels):
            start, end = (column[self._tunnels] for column in (batch.start, batch.start + batch.captured))
            outer, _ = layers(batch.data, start, end, start + batch.length[self._tunnels])
            self._layers.append(_Layer(batch, self._tunnels, outer))

    def any_of(self, places: Iterable[Ints]) -> Flags:
        """True at these places."""
        found = np.zeros(len(self._batch.start), np.bool_)
        for at in places:
            found[at] = True
        return found

    def unsure(self) -> Flags:
        """Packets that the columns do not tell enough of."""
        columns = self._columns
        unsure: Flags = (columns.fault != 0) | (self._batch.captured < _TINY)
        for layer in self._layers:
            unsure[layer.nameless] = True
        inner = self._tunnels[columns.udp[self._tunnels] > 0]
        port = rows(self._batch.data, columns.udp[inner] + 2, 2).view(">u2")
        unsure[inner[port == VXLAN_PORT]] = True
        return unsure

    def hosts(self, side: Side, address: Address) -> Ints:
        """Where the address is on that side of some IP header."""
        return np.concatenate([at for layer in self._layers for at in layer.hosts(side, address)])

    def values(self, field: Field) -> Iterator[tuple[Ints, Ints]]:
        """Places, and the value of the field at each; once for each layer that can have it."""
        roce = self._roce
        match field:
            case Field.QPN:
                yield roce.row, roce.destqp
            case Field.PSN:
                yield roce.row, roce.psn
            case Field.OPCODE:
                yield roce.row, roce.opcode
            case Field.ANSWER:
                answers = np.isin(roce.opcode, ANSWERS)
                yield roce.row[answers], roce.syndrome[answers] >> 5 & 3
            case Field.VNI:
                yield self._tunnels, self._columns.vni[self._tunnels]
            case Field.DSCP:
                yield from ((layer.at, layer.tos >> 2) for layer in self._layers)
            case Field.ECN:
                yield from ((layer.at, layer.tos & 3) for layer in self._layers)
            case Field.CONTROL:
                control = np.flatnonzero(self._columns.kind == Kind.CONTROL)
                opcode = rows(self._batch.data, self._columns.ip[control], 2).view(">u2").astype(np.int64)
                known = np.isin(opcode, (PFC_OPCODE, PAUSE_OPCODE))
                yield control[known], opcode[known]
