"""A simulation of a ring of ranks, packet by packet: two of its QPs pass queues that mark, and DCQCN slows them.

Reads keep each queue: the packet of a read returns to the queue a latency after it has left. All may pause together.
Parts of the ring's other QPs need the time of their bytes at line rate. Times are seconds, rates bit/s. Links and the
CPU take no time but the latencies.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tests.models.dcqcn.nvidia import NvidiaReactionPoint, NvidiaRegisters
from tests.models.shared_link import DcqcnSender

if TYPE_CHECKING:
    from collections.abc import Callable

OVERHEAD: Final = 24
"""Bytes of a packet on the link that no queue counts."""
HEADERS: Final = 14 + 20 + 8 + 12 + 4
"""Bytes of a packet besides its payload: Ethernet, IPv4, UDP, BTH and the ICRC."""
FRAGMENT: Final = 8256
"""Bytes of a message of UCX: eight packets of 1024, and one of 64."""
_WARM: Final = 0.2
"""Seconds from the first reads to the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedRing:
    """The links, the queues, and the job."""

    kmins: tuple[int, int]
    """Bytes: of the queue that the first rank's QP passes, and of the one that the second rank's passes."""
    ramp: int
    """Bytes from Kmin to Kmax, where all packets are marked."""
    rate: float
    """The rate of the ports with a queue."""
    reads: int
    read: int
    """Bytes of a read's packet in the queue."""
    scale: int
    """The factor of the registers of the paper."""
    part: tuple[int, ...]
    """The bytes of its packets in a queue."""
    steps: int
    compute: float
    """Seconds between two sums."""
    ranks: int = 4
    line_rate: float = 100e6
    kept: int = 960
    """Part of alpha that a period retains, of 1024."""
    latency: float = 0.4e-3
    """Mean seconds between a read's end and the arrival of the next one at the queue."""
    pause: float = 0.0
    """Seconds for which no read arrives, every 100 ms."""
    late: float = 3e-3
    """The maximum seconds until a rank that can send its next part does."""


def packets_of(size: int, mtu: int = 1024) -> tuple[int, ...]:
    """Return the bytes in a queue of the packets of a part of ``size`` bytes, which UCX sends in messages."""
    messages = [FRAGMENT] * (size // FRAGMENT) + [size % FRAGMENT]
    return tuple(min(mtu, left) + HEADERS for each in messages for left in range(each, 0, -mtu))


def step_seconds(ring: MarkedRing, seed: int) -> float:
    """Return the mean seconds of a step's sum."""
    simulation = _Simulation(ring, random.Random(seed))
    simulation.run()
    return fmean(simulation.seconds)


class _Queue:
    """A port's FIFO queue, and the QP of the ring that passes it."""

    def __init__(self, ring: MarkedRing, kmin: int, chance: random.Random) -> None:
        self._ring, self._kmin, self._chance = ring, kmin, chance
        self._waiting: deque[tuple[float, int]] = deque()
        self._depth = 0
        self._last = 0.0
        self._notified = float("-inf")
        self.sender = DcqcnSender(NvidiaReactionPoint(_registers(ring)), ring.line_rate, max(ring.part))

    def enter(self, now: float, size: int) -> tuple[float, bool]:
        """Return when a packet that arrives now leaves, and whether it is marked."""
        while self._waiting and self._waiting[0][0] <= now:
            self._depth -= self._waiting.popleft()[1]
        marked = self._chance.random() < (self._depth - self._kmin) / self._ring.ramp
        self._last = max(self._last, now) + 8 * (size + OVERHEAD) / self._ring.rate
        self._waiting.append((self._last, size))
        self._depth += size
        return self._last, marked

    def notify(self, now: float) -> None:
        """Send a CNP to the QP of the ring, unless its last one was a moment ago."""
        if now - self._notified >= 50e-6 * self._ring.scale:
            self._notified = now
            self.sender.notified(now)


def _registers(ring: MarkedRing) -> NvidiaRegisters:
    scale = ring.scale
    return NvidiaRegisters(
        line_rate=round(ring.line_rate), time_reset=55_000 * scale, byte_reset=10_000_000, threshold=5,
        ai_rate=40_000_000 // scale, hai_rate=200_000_000 // scale, min_rate=100_000_000 // scale,
        dce_tcp_g=ring.kept, dce_tcp_rtt=55_000 * scale, monitor_period=0, clamp=True, forgets=True,
    )  # fmt: skip


class _Simulation:
    def __init__(self, ring: MarkedRing, chance: random.Random) -> None:
        self._ring, self._chance = ring, chance
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._serial = count()
        self._queues = [_Queue(ring, kmin, chance) for kmin in ring.kmins]
        self._parts = 2 * (ring.ranks - 1)
        """Parts that a rank sends in a step."""
        self._got = [0] * ring.ranks
        self._sent = [0] * ring.ranks
        self._sending = [False] * ring.ranks
        self._began = 0.0
        self.seconds: list[float] = []
        """The duration of each step that has ended."""
        for queue in self._queues:
            for _ in range(ring.reads):
                self._at(chance.uniform(0, 0.002), partial(self._read, queue))
        self._at(_WARM, self._step)

    def run(self) -> None:
        while len(self.seconds) < self._ring.steps:
            time, _, happens = heapq.heappop(self._events)
            happens(time)

    def _at(self, time: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._serial), happens))

    def _read(self, queue: _Queue, now: float) -> None:
        left, _ = queue.enter(now, self._ring.read)
        back = left + self._ring.latency * self._chance.uniform(0.8, 1.2)
        self._at(back + max(0.0, self._ring.pause - back % 0.1), partial(self._read, queue))

    def _step(self, now: float) -> None:
        self._began = now
        self._got, self._sent = [0] * self._ring.ranks, [0] * self._ring.ranks
        for rank in range(self._ring.ranks):
            self._go_on(rank, now)

    def _go_on(self, rank: int, now: float) -> None:
        """Begin a rank's next part if the one before was sent, and the one that it passes on has come."""
        if self._sending[rank] or self._sent[rank] == self._parts or self._got[rank] < self._sent[rank]:
            return
        self._sending[rank] = True
        begin, ring = now + self._chance.uniform(0, self._ring.late), self._ring
        if rank < len(self._queues):
            self._at(begin, partial(self._packet, rank, 0))
        else:
            end = begin + 8 * sum(size + OVERHEAD for size in ring.part) / ring.line_rate
            self._at(end, partial(self._is_sent, rank))
            self._at(end, partial(self._arrives, rank))

    def _packet(self, rank: int, number: int, now: float) -> None:
        queue, size = self._queues[rank], self._ring.part[number]
        gone, marked = queue.enter(now, size)
        if marked:
            self._at(gone, queue.notify)
        queue.sender.sent(now)
        due = now + 8 * (size + OVERHEAD) / queue.sender.rate(now)
        if number + 1 < len(self._ring.part):
            self._at(due, partial(self._packet, rank, number + 1))
        else:
            self._at(due, partial(self._is_sent, rank))
            self._at(gone, partial(self._arrives, rank))

    def _is_sent(self, rank: int, now: float) -> None:
        self._sending[rank] = False
        self._sent[rank] += 1
        self._go_on(rank, now)

    def _arrives(self, rank: int, now: float) -> None:
        receiver = (rank + 1) % self._ring.ranks
        self._got[receiver] += 1
        self._go_on(receiver, now)
        if min(self._got) == self._parts:
            self.seconds.append(now - self._began)
            self._at(now + self._ring.compute, self._step)
