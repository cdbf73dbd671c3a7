"""Pair QPs by the handshakes of connection managers: REQ and REP name both QPs (IBA vol. 1 section 12.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.flows.streams import stream_key
from lab.wire import mad
from lab.wire.opcodes import Opcode

if TYPE_CHECKING:
    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import PacketBatch

_KEPT: Final = 16384
_TO_MAD: Final = 20  # BTH and DETH


class Handshakes:
    """REQs without a REP so far, and agreed pairs whose first packets have not been captured yet."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._asked: dict[tuple[object, ...], int] = {}
        self._agreed: dict[bytes, bytes] = {}

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce) -> None:
        """Read the communication management datagrams in a batch: those to QP 1."""
        for hit in np.flatnonzero((roce.opcode == Opcode.UD_SEND_ONLY) & (roce.destqp == mad.GENERAL_QP)).tolist():
            row = int(roce.row[hit])
            begin = int(columns.bth[row]) + _TO_MAD
            end = min(begin + mad.SIZE, int(batch.start[row] + batch.captured[row]))
            told = mad.parse(batch.data[begin:end].tobytes())
            if told is not None and told.qpn is not None:
                hosts = (tuple(columns.src[:, row].tolist()), tuple(columns.dst[:, row].tolist()))
                self._take(int(columns.vni[row]), hosts, told)

    def _take(self, vni: int, hosts: tuple[tuple[int, ...], tuple[int, ...]], told: mad.Mad) -> None:
        src, dst = hosts
        if told.name == "CM REQ" and len(self._asked) < _KEPT:
            self._asked[vni, src, dst, told.local] = told.qpn or 0
        asker = self._asked.pop((vni, dst, src, told.remote), None) if told.name == "CM REP" else None
        if asker is not None and len(self._agreed) < _KEPT:
            self._agreed[stream_key(vni, dst, src, told.qpn or 0)] = stream_key(vni, src, dst, asker)

    def settle(self) -> None:
        """Pair the streams that have appeared since their handshake."""
        if not self._agreed:
            return
        ends = list(self._agreed.items())
        for (key, _), one, other in zip(
            ends, *(self._streams.find(keys) for keys in zip(*ends, strict=True)), strict=True
        ):
            if one >= 0 and other >= 0:
                del self._agreed[key]
                if self._streams.peer[one] < 0 and self._streams.peer[other] < 0:
                    self._streams.pair(one, other)
