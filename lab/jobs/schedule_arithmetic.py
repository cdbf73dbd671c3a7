"""The arithmetic of a schedule: how long a step takes if only computations and the rates of the NICs cost time.

A collective begins when all its ranks have called it, and lasts for its bus factor's share of the size at the rate of
a NIC. A message begins when both ends have called it. A NIC sends one thing at a time, and receives one: what begins
later waits. There are no headers, no delays and no congestion inside the fabric.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.jobs.bus_bandwidth import bus_factor, received_sizes
from lab.jobs.rank_schedule import OperationKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lab.jobs.rank_schedule import JobSchedule, Operation


@dataclass(frozen=True, slots=True)
class JobTransfer:
    """A collective or a message, with its operation at each of its ranks."""

    kind: OperationKind
    """SEND for a message."""
    size: int
    ends: tuple[tuple[int, int], ...]
    """Pairs of rank and index of the operation; the sender of a message first."""

    def seconds(self, rate: int) -> float:
        """Return the duration at a rate in bits per second."""
        collective = self.kind.collective
        factor = float(bus_factor(collective, len(self.ends))) if collective is not None else 1.0
        return factor * self.size * 8 / rate

    @property
    def received(self) -> int:
        """Bytes that all ranks together receive at least."""
        collective = self.kind.collective
        if collective is None:
            return self.size
        return received_sizes(collective, len(self.ends)) * self.size


def transfers(ranks: Sequence[Sequence[Operation]]) -> list[JobTransfer]:
    """Return the collectives and messages of a step, in no particular order.

    The schedule has been checked (``check_schedule``): each has all its ends.
    """
    found: dict[Hashable, list[tuple[int, int]]] = {}
    turns: Counter[Hashable] = Counter()
    for rank, operations in enumerate(ranks):
        for index, each in enumerate(operations):
            if each.kind is OperationKind.COMPUTE:
                continue
            if each.group >= 0:
                key: Hashable = each.group
            else:
                sends = each.kind is OperationKind.SEND
                key = (rank, each.peer, each.tag) if sends else (each.peer, rank, each.tag)
            turn = (key, turns[rank, key])
            turns[rank, key] += 1
            ends = found.setdefault(turn, [])
            ends.insert(0 if each.kind is OperationKind.SEND else len(ends), (rank, index))
    return [_transfer(ranks, tuple(ends)) for ends in found.values()]


def _transfer(ranks: Sequence[Sequence[Operation]], ends: tuple[tuple[int, int], ...]) -> JobTransfer:
    rank, index = ends[0]
    return JobTransfer(ranks[rank][index].kind, ranks[rank][index].size, ends)


def step_seconds(schedule: JobSchedule, variant: int, rate: int) -> float:
    """Return the duration of a step of a variant, from the common begin to the last end at any rank.

    ``rate`` is that of a NIC in bits per second. UsageError if ranks wait for each other in a circle.
    """
    return _Step(schedule, variant, rate).run()


class _Step:
    """A step in the course of time."""

    def __init__(self, schedule: JobSchedule, variant: int, rate: int) -> None:
        self.ranks, self.rate = schedule.variants[variant], rate
        self.joined: dict[tuple[int, int], JobTransfer] = {}
        for transfer in transfers(self.ranks):
            self.joined |= dict.fromkeys(transfer.ends, transfer)
        self.called: Counter[int] = Counter()
        """The ends of each transfer, by id, that have been called."""
        self.queues: list[dict[Hashable, list[int]]] = []
        self.missing: list[list[int]] = []
        self.followers: list[dict[int, list[int]]] = []
        for operations in self.ranks:
            queues: dict[Hashable, list[int]] = {}
            followers: dict[int, list[int]] = {}
            for index in reversed(range(len(operations))):
                queues.setdefault(operations[index].queue, []).append(index)
                for before in set(operations[index].after):
                    followers.setdefault(before, []).append(index)
            self.queues.append(queues)
            self.followers.append(followers)
            self.missing.append([len(set(each.after)) for each in operations])
        self.computing = [False] * len(self.ranks)
        self.sends_until, self.receives_until = [0.0] * len(self.ranks), [0.0] * len(self.ranks)
        self.ends: list[tuple[float, int, int]] = []
        """A heap of times with the rank and the operation that ends then."""

    def run(self) -> float:
        """Return the time of the last end."""
        left, now = sum(map(len, self.ranks)), 0.0
        for rank in range(len(self.ranks)):
            self._call(rank, now)
        while self.ends:
            now, rank, index = heapq.heappop(self.ends)
            left -= 1
            if self.ranks[rank][index].kind is OperationKind.COMPUTE:
                self.computing[rank] = False
            for follower in self.followers[rank].get(index, ()):
                self.missing[rank][follower] -= 1
            self._call(rank, now)
        if left:
            raise self._circle()
        return now

    def _circle(self) -> UsageError:
        """Return an error that names an operation that never begins."""
        rank, queue = next(
            (rank, queue) for rank, queues in enumerate(self.queues) for queue in queues.values() if queue
        )
        each = self.ranks[rank][queue[-1]]
        return UsageError(
            f"rank {rank} never begins its operation {queue[-1]} ({each.kind}): ranks wait in a circle",
            "call collectives and messages in an order in which one of them can always end",
        )

    def _call(self, rank: int, now: float) -> None:
        """Call all operations of a rank that may start."""
        moved = True
        while moved:
            moved = False
            for queue in self.queues[rank].values():
                while queue and not self.missing[rank][queue[-1]] and self._may_start(rank, queue[-1]):
                    self._start(rank, queue.pop(), now)
                    moved = True

    def _may_start(self, rank: int, index: int) -> bool:
        return self.ranks[rank][index].kind is not OperationKind.COMPUTE or not self.computing[rank]

    def _start(self, rank: int, index: int, now: float) -> None:
        operation = self.ranks[rank][index]
        if operation.kind is OperationKind.COMPUTE:
            self.computing[rank] = True
            heapq.heappush(self.ends, (now + operation.seconds, rank, index))
            return
        transfer = self.joined[rank, index]
        self.called[id(transfer)] += 1
        if self.called[id(transfer)] < len(transfer.ends):
            return
        ranks = [end[0] for end in transfer.ends]
        sending = ranks if transfer.kind is not OperationKind.SEND else ranks[:1]
        receiving = ranks if transfer.kind is not OperationKind.SEND else ranks[1:]
        begin = max(
            [now, *(self.sends_until[each] for each in sending), *(self.receives_until[each] for each in receiving)]
        )
        end = begin + transfer.seconds(self.rate)
        for each in sending:
            self.sends_until[each] = end
        for each in receiving:
            self.receives_until[each] = end
        for each, number in transfer.ends:
            heapq.heappush(self.ends, (end, each, number))
