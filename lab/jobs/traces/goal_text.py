"""A schedule in GOAL, the language of LogGOPSim, htsim and ATLAHS (Hoefler, Siebert, Lumsdaine 2009).

GOAL has messages and computations only, so that each collective is divided into the messages of its algorithm: a ring
for AllReduce and AllGather, pairs for ReduceScatter and AllToAll, a binomial tree for Broadcast. Sizes are bytes, and
computations ns. Each collective of a group has a tag of its own, above those of messages.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.jobs.rank_schedule import OperationKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from lab.jobs.rank_schedule import JobSchedule, Operation

_COLLECTIVE_TAG: Final = 1 << 21
"""Tags from here on belong to collectives: those of messages are below."""
_GROUP_TAGS: Final = 1 << 14


def goal_text(schedule: JobSchedule) -> str:
    """Return the measured steps of a schedule, one after the other."""
    parts = [f"num_ranks {schedule.ranks}\n"]
    for rank in range(schedule.ranks):
        lines = _RankLines(schedule.groups, rank)
        for variant in schedule.measured:
            lines.step(schedule.variants[variant][rank])
        parts.append(f"\nrank {rank} {{\n" + "".join(f"{line}\n" for line in lines.lines) + "}\n")
    return "".join(parts)


class _RankLines:
    """The lines of one rank, while they are added."""

    def __init__(self, groups: Sequence[Sequence[int]], rank: int) -> None:
        self.groups, self.rank = groups, rank
        self.lines: list[str] = []
        self._count = 0
        self._turns: Counter[int] = Counter()
        self._last: list[int] = []
        """The labels with which the step before ended."""

    def step(self, operations: Sequence[Operation]) -> None:
        """Add the operations of a step, after all of the step before."""
        ends: list[list[int]] = []
        queues: dict[Hashable, list[int]] = {}
        for operation in operations:
            after = [label for before in operation.after for label in ends[before]] or list(self._last)
            if operation.kind is OperationKind.COMPUTE:
                after += queues.get(operation.queue, [])
                queues[operation.queue] = ended = [self.add(f"calc {round(operation.seconds * 1e9)}", after)]
            elif operation.group >= 0:
                ended = self._collective(operation, after)
            else:
                word = "send" if operation.kind is OperationKind.SEND else "recv"
                ended = [self._message(word, operation.peer, operation.size, operation.tag, after)]
            ends.append(ended)
        waited = {before for operation in operations for before in operation.after}
        open_ends = [label for number, each in enumerate(ends) if number not in waited for label in each]
        self._last = open_ends or self._last

    def add(self, what: str, after: Sequence[int]) -> int:
        """Add an operation, and return its label."""
        self._count += 1
        self.lines.append(f"l{self._count}: {what}")
        self.lines += [f"l{self._count} requires l{each}" for each in sorted(set(after))]
        return self._count

    def _message(self, word: str, peer: int, size: int, tag: int, after: Sequence[int]) -> int:
        preposition = "to" if word == "send" else "from"
        return self.add(f"{word} {size}b {preposition} {peer} tag {tag}", after)

    def _collective(self, operation: Operation, after: list[int]) -> list[int]:
        group = self.groups[operation.group]
        turn = self._turns[operation.group]
        self._turns[operation.group] += 1
        tag = _COLLECTIVE_TAG + operation.group * _GROUP_TAGS + turn % _GROUP_TAGS
        ended = after
        for sends in collective_messages(operation.kind, operation.size, len(group), group.index(self.rank)):
            made = [self._message(word, group[peer], size, tag, ended) for word, peer, size in sends]
            ended = made or ended
        return ended


def collective_messages(
    kind: OperationKind, size: int, ranks: int, place: int
) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the messages of one rank in each round of a collective: ``send`` or ``recv``, the other place, and bytes.

    A round begins when the one before has ended.
    """
    parts = [
        (size // ELEMENT_OCTETS * (index + 1) // ranks - size // ELEMENT_OCTETS * index // ranks) * ELEMENT_OCTETS
        for index in range(ranks)
    ]
    after, before = (place + 1) % ranks, (place - 1) % ranks
    match kind:
        case OperationKind.ALLREDUCE | OperationKind.ALLGATHER:
            for turn in range((2 if kind is OperationKind.ALLREDUCE else 1) * (ranks - 1)):
                sent, got = parts[(place - turn) % ranks], parts[(place - turn - 1) % ranks]
                yield [message for message in (("send", after, sent), ("recv", before, got)) if message[2]]
        case OperationKind.REDUCE_SCATTER | OperationKind.ALLTOALL:
            for turn in range(1, ranks):
                target, source = (place + turn) % ranks, (place - turn) % ranks
                yield [("send", target, parts[0]), ("recv", source, parts[0])]
        case OperationKind.BROADCAST:
            distance = 1
            while distance < ranks:
                distance *= 2
            while distance > 1:
                distance //= 2
                if place % (2 * distance) == 0 and place + distance < ranks:
                    yield [("send", place + distance, size)]
                elif place % (2 * distance) == distance:
                    yield [("recv", place - distance, size)]
