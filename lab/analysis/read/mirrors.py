"""Mirrored packets as the mirrored port saw them: without the GRE and ERSPAN that carried them to the capture.

All three types are known (draft-foschiano-erspan): type I has nothing between GRE and the frame, which is what
SONiC sends too, but on a Spectrum, whose own header is 22 octets. GRE with a key carries a network of its own, not a
mirror's frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode.header_walk_columns import Strata
from lab.analysis.read.packet_batch import rows
from lab.wire.layers import ETHERNET_SIZE, RULES, Header
from lab.wire.udp_ports import GRE

if TYPE_CHECKING:
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch

_CARRIERS: Final = (Header.GRE, Header.ERSPAN_2, Header.ERSPAN_3, Header.SPECTRUM_MIRROR)
_KEYED: Final = 0x20
_FROM: Final = ETHERNET_SIZE
_IP: Final = 20
_PROTOCOLS: Final = [header + tags * RULES[Header.VLAN].size for header in (6, 9) for tags in range(3)]
"""Where IP's protocol may be, behind an Ethernet header with up to two tags: of IPv6, and of IPv4."""


def unwrap(batch: PacketBatch) -> tuple[PacketBatch, int]:
    """The batch with mirrored frames instead of what carried them, and how many there are."""
    perhaps = np.flatnonzero(_may_be(batch))
    if not len(perhaps):  # as in nearly all captures
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
    """Where the mirrored frame starts: the first one that GRE or ERSPAN carries; else where the packet does."""
    found = start.copy()
    carrier = np.zeros(len(start), np.bool_)
    for stratum in strata.strata:
        row = stratum.row
        if stratum.header is Header.ETHERNET:
            first = carrier[row] & (found[row] == start[row])
            found[row[first]] = stratum.at[first]
        if stratum.header is Header.GRE:
            carrier[row] = stratum.octets[:, 0] & _KEYED == 0
        elif stratum.header not in _CARRIERS:
            carrier[row] = False
    return found
