"""Pair the two streams of a connection by matching answers with requests.

An answer carries the PSN of a request sent earlier, in the other direction between the same hosts. QPs that start at
equal PSNs and advance in step are ambiguous. Three more properties then decide:

* Linux derives one UDP source port for both directions from the two QPs.
* A READ response begins at the PSN of its READ.
* The MSN counts messages.

If several streams remain, none is paired.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode import value_runs
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import zeros
from lab.wire.headers import PSN_HALF, PSN_MASK
from lab.wire.udp_ports import source_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.analysis.flows.flow_batches import Sorted
    from lab.analysis.flows.streams import Streams
    from lab.analysis.read.packet_batch import Flags, Ints

_WINDOW: Final = 32768  # PSNs: how far an answer may lie behind the newest request
_AHEAD: Final = 4096  # PSNs: how far an answer may be ahead of the newest request, if the capture lacks some
_PAIRED_AT_ONCE: Final = 64
_TRIES: Final = 32
_HEARD: Final = 64  # answers of one stream that are compared, per round
_PENDING: Final = 4096  # streams with several candidates left
_MANY: Final = 64  # candidates of a stream; above this, pairing waits for more evidence
_ALIKE: Final = 4  # candidates with one source port: QPs 3 and 4, and 4 and 3
_WEIGHED: Final = 100_000  # comparisons in all, so that thousands of streams between two hosts do not take hours


class StreamSlice(NamedTuple):
    """Some packets of one stream in a round, in file order."""

    at: Ints
    psn: Ints
    opcode: Ints
    msn: Ints
    ackreq: Flags


class Pairing:
    """Finds pairs of streams, and records them in ``streams``."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._newest = zeros(MAX_FLOWS, np.uint32)  # 1 + PSN of the last request before this round, 0 without any
        self._tries: dict[int, int] = defaultdict(int)
        self._possible: dict[int, tuple[int, ...]] = {}  # as tuples: sets take ten times the memory
        self._weighed = 0

    def add(self, packets: Sorted) -> None:
        """Use the packets of a round."""
        asking = np.flatnonzero(ops.SEQUENCED[packets.opcode])
        streams = self._streams.of[packets.flow].astype(np.int64)
        if (self._streams.peer[: len(self._streams)] < 0).any():
            self._pair(packets, streams, asking)
        self._newest[streams[asking]] = packets.psn[asking] + 1

    def finish(self) -> None:
        """Pair the last streams: those that are the only unpaired ones in their direction between two hosts."""
        streams = np.flatnonzero(self._streams.peer[: len(self._streams)] < 0)
        hosts = self._streams.hosts(streams)
        alone = np.bincount(hosts, minlength=len(streams) + 1)[hosts] == 1
        left = dict(zip(hosts[alone].tolist(), streams[alone].tolist(), strict=True))
        backwards = self._streams.reverse(hosts[alone]).tolist()
        for stream, back in zip(list(left.values()), backwards, strict=True):
            if back in left and left[back] != stream and self._streams.peer[stream] < 0:
                self._streams.pair(stream, left[back])

    def _pair(self, packets: Sorted, streams: Ints, asking: Ints) -> None:
        answering = np.flatnonzero((packets.syndrome >= 0) & ~ops.CONTINUED[packets.opcode])
        answering = answering[self._streams.peer[streams[answering]] < 0]
        asking = asking[self._streams.peer[streams[asking]] < 0]
        requests, answers = (_Sides(packets, streams, at) for at in (asking, answering))
        tried = 0
        for stream in answers.streams():
            if tried < _PAIRED_AT_ONCE and self._tries[stream] < _TRIES and (heard := answers.first(stream, _HEARD)):
                tried += 1
                self._tries[stream] += 1
                self._weigh(stream, heard, requests)
        self._settle()

    def _weigh(self, stream: int, answers: StreamSlice, requests: _Sides) -> None:
        """Keep the candidates that the answers of this round do not rule out."""
        there: Iterable[int] = self._possible.get(stream, self._streams.back(stream))
        there = [other for other in there if other != stream and self._streams.peer[other] < 0]
        there = self._of_port(stream, there)
        self._weighed += len(there)
        if len(there) > _MANY or self._weighed > _WEIGHED:
            return
        possible = [o for o in there if self._could(answers, requests.first(o), int(self._newest[o]) - 1)]
        if not possible:  # the capture may lack requests
            possible = [o for o in there if self._could(answers, requests.first(o), int(self._newest[o]) - 1, _AHEAD)]
        for weight in (_read, _counted, _asked):
            possible = _heaviest({other: weight(answers, requests.first(other)) for other in possible})
        if possible and (stream in self._possible or len(self._possible) < _PENDING):
            self._possible[stream] = tuple(possible)

    def _of_port(self, stream: int, there: list[int]) -> list[int]:
        """Return the only candidate whose source port follows from both QPs; all candidates if there is no such one.

        A NIC that uses one port for everything gives many streams the same port, so that a match may be chance.
        """
        ports, qp = self._streams.port, self._streams.destqp
        port = int(ports[stream])
        same = np.array(there, np.int64)[ports[there] == port][: _ALIKE + 1].tolist()
        due = [other for other in same if source_port(qp(stream), qp(other)) == port]
        return due if len(due) == 1 and len(same) <= _ALIKE else there

    def _could(self, answers: StreamSlice, requests: StreamSlice | None, newest: int, ahead: int = 0) -> bool:
        """Return whether each answer closely follows its request; ``ahead`` allows for requests not captured."""
        if requests is None:
            return newest >= 0 and bool(((newest + ahead - answers.psn & PSN_MASK) < _WINDOW + ahead).all())
        index = np.searchsorted(requests.at, answers.at) - 1
        front = np.where(index >= 0, _highest(requests.psn)[index], newest)
        return bool(((front >= 0) & ((front + ahead - answers.psn & PSN_MASK) < _WINDOW + ahead)).all())

    def _settle(self) -> None:
        """Pair streams with one candidate left, and drop that candidate from the others, until nothing changes."""
        going = True
        while going:
            going = False
            claims: dict[int, list[int]] = defaultdict(list)
            for stream, possible in list(self._possible.items()):
                left = tuple(other for other in possible if self._streams.peer[other] < 0)
                if self._streams.peer[stream] >= 0 or not left:
                    del self._possible[stream]
                    continue
                self._possible[stream] = left
                if len(left) == 1:
                    claims[left[0]].append(stream)
            for other, streams in claims.items():
                if len(streams) == 1:
                    self._streams.pair(streams[0], other)
                    going = True


class _Sides:
    """Some packets of a round, grouped by stream. Each ``StreamSlice`` is built on demand."""

    def __init__(self, packets: Sorted, streams: Ints, at: Ints) -> None:
        self._at = at[np.lexsort((packets.at[at], streams[at]))]
        self._streams = streams[self._at]
        self._columns = (packets.at, packets.psn, packets.opcode, packets.msn, packets.ackreq)

    def streams(self) -> list[int]:
        """Return the streams with packets here."""
        found: list[int] = self._streams[value_runs.starts(self._streams)].tolist()
        return found

    def first(self, stream: int, most: int | None = None) -> StreamSlice | None:
        """Return the first packets of a stream, up to ``most``; None if it has none."""
        begin, end = np.searchsorted(self._streams, [stream, stream + 1]).tolist()
        at = self._at[begin:end][:most]
        return StreamSlice(*(column[at] for column in self._columns)) if begin < end else None  # type: ignore[arg-type]


def _highest(psn: Ints) -> Ints:
    """Return the highest PSN up to each request. A retransmission does not lower it."""
    steps = (psn - psn[0] + PSN_HALF & PSN_MASK) - PSN_HALF
    found: Ints = psn[0] + np.maximum.accumulate(steps) & PSN_MASK
    return found


def _heaviest(weights: dict[int, int]) -> list[int]:
    most = max(weights.values(), default=0)
    return [other for other, weight in weights.items() if weight == most]


def _asked(answers: StreamSlice, requests: StreamSlice | None) -> int:
    """Count the answers whose PSN is that of a request with AckReq."""
    return 0 if requests is None else int(np.isin(answers.psn, requests.psn[requests.ackreq]).sum())


def _read(answers: StreamSlice, requests: StreamSlice | None) -> int:
    """Count the responses that begin at the PSN of a READ."""
    begins = answers.psn[ops.READ_RESPONSE[answers.opcode]]
    return 0 if requests is None else int(np.isin(begins, requests.psn[ops.READ_REQUEST[requests.opcode]]).sum())


def _counted(answers: StreamSlice, requests: StreamSlice | None) -> int:
    """Return 1 if the MSN grows by one with each message that ends (IBA vol. 1 section 9.7.7.1), else 0."""
    known = answers.msn >= 0
    psn, msn = answers.psn[known], answers.msn[known]
    if requests is None or len(psn) < 2 or not np.isin(psn[[0, -1]], requests.psn).all():
        return 0
    ended = requests.psn[ops.MESSAGE[requests.opcode] >= 0]
    span = int(psn[-1] - psn[0] & PSN_MASK)
    steps = ended - psn[0] - 1 & PSN_MASK
    return int(len(np.unique(ended[steps < span])) == int(msn[-1] - msn[0] & PSN_MASK))
