"""Strip GRE and ERSPAN from mirrored packets, so that they appear as the mirrored port saw them.

All three ERSPAN types are supported (draft-foschiano-erspan). Type I has nothing between GRE and the frame. SONiC
uses it, too, except on Spectrum, which adds a header of 22 bytes. GRE with a key carries an overlay network, not
mirrored frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.field_columns import read_column
from lab.analysis.decode.header_walk_columns import Strata
from lab.analysis.read.packet_batch import rows
from lab.wire.header_fields import EthernetFields, GreFields, Ipv4Fields, Ipv6Fields, VlanFields
from lab.wire.layers import Header
from lab.wire.udp_ports import GRE

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch

_CARRIERS: Final = (Header.GRE, Header.ERSPAN_2, Header.ERSPAN_3, Header.SPECTRUM_MIRROR)
_FROM: Final = EthernetFields.SIZE
_IP: Final = Ipv4Fields.SIZE
_PROTOCOLS: Final = [
    bits.at + tags * VlanFields.SIZE for bits in (Ipv6Fields.NEXT_HEADER, Ipv4Fields.PROTOCOL) for tags in range(3)
]
"""Offsets of IP's protocol field after an Ethernet header with up to two VLAN tags: of IPv6, and of IPv4."""


def unwrap(batch: PacketBatch) -> tuple[PacketBatch, int]:
    """Return the batch with the mirrored frames in place of their carriers, and the number of mirrored frames."""
    perhaps = np.flatnonzero(_may_be(batch))
    if not len(perhaps):  # the case in nearly all captures
        return batch, 0
    start = batch.start[perhaps]
    strata = Strata(batch.data, start, *(start + column[perhaps] for column in (batch.captured, batch.length)))
    offset = np.zeros(len(batch.start), np.int64)
    offset[perhaps] = _frames(strata, start) - start
    captured = batch.captured - offset
    moved = batch._replace(
        start=batch.start + offset, captured=captured, length=np.maximum(batch.length - offset, captured)
    )
    return moved, int((offset > 0).sum())


def _may_be(batch: PacketBatch) -> Flags:
    head = rows(batch.data, batch.start + _FROM, _IP).view(np.uint8).reshape(-1, _IP)
    found: Flags = head[:, _PROTOCOLS[0]] == GRE
    for place in _PROTOCOLS[1:]:
        found |= head[:, place] == GRE
    return found


def _frames(strata: Strata, start: Ints) -> Ints:
    """Return the start of the first frame inside GRE or ERSPAN; of packets without one, their own start."""
    found = start.copy()
    carrier = np.zeros(len(start), np.bool_)
    for stratum in strata.strata:
        row = stratum.row
        if stratum.header is Header.ETHERNET:
            first = carrier[row] & (found[row] == start[row])
            found[row[first]] = stratum.at[first]
        if stratum.header is Header.GRE:
            carrier[row] = read_column(GreFields.KEY_PRESENT, stratum.octets) == 0
        elif stratum.header not in _CARRIERS:
            carrier[row] = False
    return found
