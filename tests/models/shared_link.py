"""A simulation of two senders on one link, packet by packet: the shares to which an algorithm leads.

Each sender is a QP of rxe with messages of 64 packets: it has at most 128 packets unacknowledged, and only the last
of a message asks for an acknowledgement. The link has a FIFO queue that marks by the WRED curve, and no packet is
lost. Times are seconds, rates bit/s.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from tests.models.timely import timely_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.models.dcqcn.trace import ReactionPoint
    from tests.models.timely import TimelyParameters

MESSAGE: Final = 64
WINDOW: Final = 128
_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A link of ``rate`` bit/s, and its switch."""

    rate: float
    frame: int = 1086
    """Bytes of a packet, without ``overhead`` on the wire."""
    overhead: int = 24
    rtt: float = 500e-6
    """Seconds, with an empty queue."""
    kmin: int = 5_000
    kmax: int = 200_000
    pmax: float = 0.01
    cnp_gap: float = 5e-3
    """Minimum time in seconds between two CNPs of a QP."""


class Sender(Protocol):
    """A QP with congestion control."""

    def rate(self, now: float, /) -> float:
        """Return the rate at a time."""

    def sent(self, now: float, /) -> None:
        """Count a packet."""

    def acknowledged(self, rtt: float | None, /) -> None:
        """Take an acknowledgement, with the RTT that it ends if it ends one."""

    def notified(self, now: float, /) -> None:
        """Take a CNP."""


class TimelySender:
    """A QP that has the line rate until its first acknowledgement; then TIMELY begins with ``first`` bit/s."""

    def __init__(self, parameters: TimelyParameters, first: float) -> None:
        self._rate, self._first, self._started = parameters.line_rate, first, False
        self._rtt = 0.0
        self._rates = timely_rates(parameters, self._rtts(), first)

    def rate(self, _now: float) -> float:
        return self._rate

    def sent(self, now: float) -> None:
        pass

    def acknowledged(self, rtt: float | None) -> None:
        if not self._started:
            self._started, self._rate = True, self._first
        elif rtt is not None:
            self._rtt = rtt
            self._rate = next(self._rates)

    def notified(self, now: float) -> None:
        pass

    def _rtts(self) -> Iterator[float]:
        while True:
            yield self._rtt


class DcqcnSender:
    """A QP with a model of DCQCN that counts frames of ``size`` bytes."""

    def __init__(self, model: ReactionPoint, line_rate: float, size: int) -> None:
        self._model, self._rate, self._size = model, line_rate, size

    def rate(self, now: float) -> float:
        self._run(now)
        return self._rate

    def sent(self, now: float) -> None:
        for state in self._model.sent(self._run(now), self._size):
            self._rate = state.rate

    def acknowledged(self, rtt: float | None) -> None:
        pass

    def notified(self, now: float) -> None:
        for state in self._model.cnp(self._run(now)):
            self._rate = state.rate

    def _run(self, now: float) -> int:
        until = round(now * _NS)
        while (time := self._model.pending()) is not None and time <= until:
            for state in self._model.fire(time):
                self._rate = state.rate
        return until


class _Flow:
    """A sender's packets: how many were sent and acknowledged, the one that is timed, and when each was sent."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.count = self.acknowledged = 0
        self.timed: tuple[int, float] | None = None
        self.due, self.blocked = 0.0, False
        self.notified_at = float("-inf")
        self.times: list[float] = []


class _Simulation:
    def __init__(self, link: SharedLink, senders: Sequence[Sender], starts: Sequence[float], seed: int) -> None:
        self._link, self._chance = link, random.Random(seed)
        self._queue: deque[float] = deque()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._serial = count()
        self.flows = [_Flow(sender) for sender in senders]
        for flow, start in zip(self.flows, starts, strict=True):
            self._at(start, partial(self._send, flow))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            time, _, happens = heapq.heappop(self._events)
            happens(time)

    def _at(self, time: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._serial), happens))

    def _send(self, flow: _Flow, now: float) -> None:
        link = self._link
        flow.blocked = flow.count - flow.acknowledged >= WINDOW
        if flow.blocked:
            return
        number, bits = flow.count, 8 * (link.frame + link.overhead)
        flow.count += 1
        flow.times.append(now)
        asks = number % MESSAGE == MESSAGE - 1
        if asks and flow.timed is None:
            flow.timed = number, now
        marked = self._is_marked(now)
        left = max(self._queue[-1] if self._queue else now, now) + bits / link.rate
        self._queue.append(left)
        flow.sender.sent(now)
        if marked:
            self._at(left + link.rtt / 2, partial(self._notify, flow))
        if asks:
            self._at(left + link.rtt, partial(self._acknowledge, flow, number))
        flow.due = max(flow.due, now) + bits / flow.sender.rate(now)
        self._at(flow.due, partial(self._send, flow))

    def _is_marked(self, now: float) -> bool:
        while self._queue and self._queue[0] <= now:
            self._queue.popleft()
        link, depth = self._link, len(self._queue) * self._link.frame
        if depth <= link.kmin:
            return False
        return depth > link.kmax or self._chance.random() < link.pmax * (depth - link.kmin) / (link.kmax - link.kmin)

    def _notify(self, flow: _Flow, now: float) -> None:
        if now - flow.notified_at >= self._link.cnp_gap:
            flow.notified_at = now
            flow.sender.notified(now)

    def _acknowledge(self, flow: _Flow, number: int, now: float) -> None:
        flow.acknowledged, rtt = number + 1, None
        if flow.timed is not None and flow.timed[0] == number:
            rtt, flow.timed = now - flow.timed[1], None
        flow.sender.acknowledged(rtt)
        if flow.blocked:
            flow.blocked = False
            self._at(max(flow.due, now), partial(self._send, flow))


def stays_unfair(share: float, first: float) -> bool:
    """Whether a split that began with a share of ``first`` is still half as far from equal shares, on either side."""
    return abs(share - 0.5) >= abs(first - 0.5) / 2


def first_share(
    link: SharedLink, senders: Sequence[Sender], starts: Sequence[float], *, seed: int, until: float, judged: float
) -> float:
    """Return the part of the packets of the last ``judged`` seconds that the first of two senders sent."""
    simulation = _Simulation(link, senders, starts, seed)
    simulation.run(until)
    first, second = (sum(time > until - judged for time in flow.times) for flow in simulation.flows)
    return first / (first + second)
