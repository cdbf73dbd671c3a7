"""Apply a packet filter to a whole batch, with the same results as ``lab.wire.filter.match``.

Conditions are arithmetic on columns. Damaged and very short packets are passed to ``match`` one by one.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.columns import PacketClass, decode, vni
from lab.analysis.decode.field_columns import read_column
from lab.analysis.decode.header_walk_columns import Strata
from lab.wire import frame
from lab.wire.filter.expression import (
    AddressSide,
    All,
    Any,
    Expression,
    FilterField,
    HostCondition,
    Not,
    Within,
    quick,
)
from lab.wire.filter.match import ANSWERS, matches
from lab.wire.header_fields import DSCP, ECN, Ipv4Fields, Ipv6Fields, MacControlFields, SyndromeFields
from lab.wire.layers import IP_HEADERS, VNI_HEADERS, Header
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.decode.header_walk_columns import Stratum
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch
    from lab.wire.filter.expression import Address

_NOWHERE: Final = np.zeros(0, np.int64)
_TINY: Final = 60
"""Bytes. A packet shorter than a minimal Ethernet frame may end inside any header."""


def chosen(expression: Expression, batch: PacketBatch, names: Sequence[str] = ()) -> Flags:
    """Return, by packet, whether the filter matches. ``names`` are the names of the interfaces."""
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
    """Return, by packet, whether the filter certainly matches, and whether it may match."""
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
        case HostCondition(side, addresses) if quick(expression):
            found = facts.any_of(facts.hosts(side, address) for address in addresses)
            return found, found
        case Within(field, ranges) if quick(expression):
            places = list(facts.values(field))
            found = facts.any_of(
                at[(first <= value) & (value <= last)] for at, value in places for first, last in ranges
            )
            return found, found
        case _:
            nothing = facts.any_of(())
            return nothing, ~nothing


class _Layer:
    """One IP header per packet in ``at``, at the same position of their header walk."""

    def __init__(self, stratum: Stratum) -> None:
        self.at = stratum.row
        octets = np.ascontiguousarray(stratum.octets)
        self.version = 4 if stratum.header is Header.IPV4 else 6
        fields = Ipv4Fields if self.version == 4 else Ipv6Fields
        self._src, self._dst = (octets[:, bits.at : bits.end] for bits in (fields.SRC, fields.DST))
        self.tos = read_column(fields.TOS, octets)

    def hosts(self, side: AddressSide, address: Address) -> Iterator[Ints]:
        if address.version != self.version:
            return
        octets = np.frombuffer(address.packed, np.uint8)
        for mine, where in ((AddressSide.SOURCE, self._src), (AddressSide.DESTINATION, self._dst)):
            if side in {mine, AddressSide.ANY}:
                yield self.at[(where == octets).all(axis=1)]


class _Facts:
    """The facts about a batch that filters use, as indices of packets."""

    def __init__(self, batch: PacketBatch, columns: Columns, roce: Roce) -> None:
        self._batch, self._columns, self._roce = batch, columns, roce

    @cached_property
    def _strata(self) -> list[Stratum]:
        """Every header of every packet. It is computed on demand, as most filters need only the columns."""
        start = self._batch.start
        return Strata(self._batch.data, start, start + self._batch.captured, start + self._batch.length).strata

    @cached_property
    def _layers(self) -> list[_Layer]:
        return [_Layer(stratum) for stratum in self._strata if stratum.header in IP_HEADERS]

    def any_of(self, places: Iterable[Ints]) -> Flags:
        """Return a mask that is true at these indices."""
        found = np.zeros(len(self._batch.start), np.bool_)
        for at in places:
            found[at] = True
        return found

    def unsure(self) -> Flags:
        """Return the packets that ``match`` must decide: damaged or very short ones."""
        unsure: Flags = (self._columns.fault != 0) | (self._batch.captured < _TINY)
        return unsure

    def hosts(self, side: AddressSide, address: Address) -> Ints:
        """Return the packets with the address on that side of any IP header."""
        return np.concatenate([_NOWHERE, *(at for layer in self._layers for at in layer.hosts(side, address))])

    def values(self, field: FilterField) -> Iterator[tuple[Ints, Ints]]:
        """Yield packet indices and the field's value at each, once for each layer that can have the field."""
        roce = self._roce
        match field:
            case FilterField.QPN:
                yield roce.row, roce.destqp
            case FilterField.PSN:
                yield roce.row, roce.psn
            case FilterField.OPCODE:
                yield roce.row, roce.opcode
            case FilterField.ANSWER:
                answers = np.isin(roce.opcode, ANSWERS)
                yield roce.row[answers], SyndromeFields.KIND.of(roce.syndrome[answers])
            case FilterField.VNI:
                yield from ((stratum.row, vni(stratum)) for stratum in self._strata if stratum.header in VNI_HEADERS)
            case FilterField.DSCP:
                yield from ((layer.at, DSCP.of(layer.tos)) for layer in self._layers)
            case FilterField.ECN:
                yield from ((layer.at, ECN.of(layer.tos)) for layer in self._layers)
            case FilterField.CONTROL:
                control = np.flatnonzero(self._columns.kind == PacketClass.CONTROL)
                opcode = MacControlFields.OPCODE.gather(self._batch.data, self._columns.ip[control])
                known = np.isin(opcode, (PFC_OPCODE, PAUSE_OPCODE))
                yield control[known], opcode[known]
