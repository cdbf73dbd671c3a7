"""Pair QPs by the handshakes of connection managers: REQ and REP name both QPs (IBA vol. 1 section 12.6).

A manager sends a REQ again while it has no answer: REP, REJ, or MRA, which asks for more time (section 12.6.4). An
answer has the communication ID and the transaction ID of its REQ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.flows.streams import stream_key
from lab.analysis.results.analysis_facts import RejectedConnection, UnansweredRequest
from lab.analysis.results.number_format import address, vni_or_none
from lab.wire import mad
from lab.wire.opcodes import Opcode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import PacketBatch

_KEPT: Final = 16384
_TO_MAD: Final = 20  # BTH and DETH
_APART: Final = 10_000_000
"""ns between transmissions of one REQ: less is another link or a mirror. Linux waits for seconds."""
_TIMES: Final = 3
"""Transmissions that prove that no answer came."""
_ANSWERS: Final = frozenset(("CM REP", "CM REJ", "CM MRA"))


@dataclass(slots=True)
class _Request:
    interface: int
    first: int  # ns
    last: int
    times: int = 1


class Handshakes:
    """REQs without a REP so far, and agreed pairs whose first packets have not been captured yet."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._asked: dict[tuple[object, ...], int] = {}
        self._waiting: dict[tuple[object, ...], _Request] = {}  # keyed as _asked is
        self._agreed: dict[bytes, bytes] = {}
        self._rejected: dict[tuple[object, ...], tuple[int, set[tuple[int | None, int | None]]]] = {}

    def add(self, batch: PacketBatch, columns: Columns, roce: Roce) -> None:
        """Read the communication management datagrams in a batch: those to QP 1."""
        for hit in np.flatnonzero((roce.opcode == Opcode.UD_SEND_ONLY) & (roce.destqp == mad.GENERAL_QP)).tolist():
            row = int(roce.row[hit])
            begin = int(columns.bth[row]) + _TO_MAD
            end = min(begin + mad.SIZE, int(batch.start[row] + batch.captured[row]))
            told = mad.parse(batch.data[begin:end].tobytes())
            if told is None:
                continue
            hosts = (tuple(columns.src[:, row].tolist()), tuple(columns.dst[:, row].tolist()))
            vni = int(columns.vni[row])
            if told.name in _ANSWERS:
                self._waiting.pop((vni, *reversed(hosts), told.remote, told.transaction), None)
            if told.reason is not None:
                self._reject((vni, *hosts, told.reason), int(batch.interface[row]), (told.remote, told.transaction))
            if told.qpn is not None:
                if told.name == "CM REQ":
                    self._request(
                        (vni, *hosts, told.local, told.transaction), int(batch.interface[row]), int(batch.time[row])
                    )
                self._take(vni, hosts, told)

    def _request(self, key: tuple[object, ...], interface: int, time: int) -> None:
        request = self._waiting.get(key)
        if request is None:
            if len(self._waiting) < _KEPT:
                self._waiting[key] = _Request(interface, time, time)
        elif time - request.last >= _APART:
            request.times, request.last = request.times + 1, time

    def unanswered(self, links: Sequence[str]) -> Iterator[UnansweredRequest]:
        """Yield connection requests that were sent again and again; ``links`` are interface names by number."""
        for (vni, src, dst, *_), request in self._waiting.items():
            if request.times >= _TIMES:
                yield UnansweredRequest(
                    link=links[request.interface],
                    src=address(src),  # type: ignore[arg-type] # four words, as _request has put them there
                    dst=address(dst),  # type: ignore[arg-type]
                    vni=vni_or_none(vni),  # type: ignore[arg-type]
                    times=request.times,
                    seconds=(request.last - request.first) / 1e9,
                )

    def _reject(self, key: tuple[object, ...], interface: int, exchange: tuple[int | None, int | None]) -> None:
        """Count a rejected connection once: several links, or a mirror, may have its REJ."""
        known = self._rejected.setdefault(key, (interface, set())) if len(self._rejected) < _KEPT else None
        if known is not None and len(known[1]) < _KEPT:
            known[1].add(exchange)

    def rejected(self, links: Sequence[str]) -> Iterator[RejectedConnection]:
        """Yield rejected connections by hosts and reason; ``links`` are interface names by number."""
        for (vni, src, dst, reason), (interface, exchanges) in self._rejected.items():
            yield RejectedConnection(
                link=links[interface],
                src=address(src),  # type: ignore[arg-type] # four words, as in unanswered
                dst=address(dst),  # type: ignore[arg-type]
                vni=vni_or_none(vni),  # type: ignore[arg-type]
                reason=reason,  # type: ignore[arg-type]
                times=len(exchanges),
            )

    def _take(self, vni: int, hosts: tuple[tuple[int, ...], tuple[int, ...]], told: mad.Mad) -> None:
        src, dst = hosts
        if told.name == "CM REQ" and len(self._asked) < _KEPT:
            self._asked[vni, src, dst, told.local, told.transaction] = told.qpn or 0
        answered = (vni, dst, src, told.remote, told.transaction)
        asker = self._asked.pop(answered, None) if told.name == "CM REP" else None
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
