"""Mirrored packets as the mirrored port saw them: without the GRE and ERSPAN that carried them to the capture.

All three types are known (draft-foschiano-erspan): type I has nothing between GRE and the frame, which is what
SONiC sends too, type II eight octets, type III twelve, and eight more where it says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.columns import rows
from lab.wire.frame import ETHERNET, IPV4_TYPE, VLAN_TAG, VLAN_TYPES

if TYPE_CHECKING:
    from lab.analysis.batch import Batch, Flags, Ints

_GRE_PROTOCOL: Final = 47
_ERSPAN: Final = 0x88BE
_ERSPAN_3: Final = 0x22EB
_BRIDGED: Final = 0x6558  # an Ethernet frame (RFC 7637 section 3.2), to which SONiC can be set
_SEQUENCE: Final = 0x1000
_PLAIN_FLAGS: Final = 0xEFFF  # any of these in GRE's first word means that more follows, as no ERSPAN has
_TYPE_AT: Final = 12
_PROTOCOL_AT: Final = 11  # behind that, of IPv4
_FRAME: Final = 60  # bytes of headers that are looked at: a tag, IPv4 without options, GRE and ERSPAN


def unwrap(batch: Batch) -> tuple[Batch, int]:
    """The batch with mirrored frames instead of what carried them, and how many there are."""
    offset = _offsets(batch)
    found = offset > 0
    if not found.any():
        return batch, 0
    shorter = (batch.captured - offset, np.maximum(batch.length - offset, batch.captured - offset))
    return batch._replace(start=batch.start + offset, captured=shorter[0], length=shorter[1]), int(found.sum())


def _offsets(batch: Batch) -> Ints:
    """Bytes before the mirrored frame; 0 where there is none."""
    data, start = batch.data, batch.start
    offset = np.zeros(len(start), np.int64)
    head = rows(data, start + _TYPE_AT, 16).view(np.uint8).reshape(-1, 16)
    carried = head[:, (_PROTOCOL_AT, _PROTOCOL_AT + VLAN_TAG)] == _GRE_PROTOCOL
    if not carried.any():  # as in nearly all captures
        return offset
    kinds = head[:, :6].copy().view(">u2")
    tagged = np.isin(kinds[:, 0], VLAN_TYPES)
    ip = start + ETHERNET + np.where(tagged, VLAN_TAG, 0)
    good = np.where(tagged, (kinds[:, 2] == IPV4_TYPE) & carried[:, 1], (kinds[:, 0] == IPV4_TYPE) & carried[:, 0])
    at = np.flatnonzero(good & (batch.captured >= _FRAME))
    if not len(at):
        return offset
    gre = ip[at] + (data[ip[at]] & 15).astype(np.int64) * 4
    size = _headers(batch, at, gre)
    known = (size > 0) & (gre + size + ETHERNET <= start[at] + batch.captured[at])
    offset[at[known]] = (gre + size - start[at])[known]
    return offset


def _headers(batch: Batch, at: Ints, gre: Ints) -> Ints:
    """Bytes of GRE and ERSPAN; 0 where they are not understood."""
    end = batch.start[at] + batch.captured[at]
    here = np.where(gre + 24 <= end, gre, batch.start[at])
    flags, kind = _short(batch, here), _short(batch, here + 2)
    sequenced = flags & _SEQUENCE != 0
    base = np.where(sequenced, 8, 4)
    further: Flags = batch.data[here + 8 + 11] & 1 != 0
    size = np.select(
        [(kind == _ERSPAN) & sequenced, (kind == _ERSPAN) | (kind == _BRIDGED), (kind == _ERSPAN_3) & sequenced],
        [16, base, np.where(further, 28, 20)],
        0,
    )
    return np.where((gre + 24 <= end) & (flags & _PLAIN_FLAGS == 0), size, 0)


def _short(batch: Batch, at: Ints) -> Ints:
    return rows(batch.data, at, 2).view(">u2").astype(np.int64)
