"""The schedule of a job: the operations of each rank in a step, and their dependencies.

A training job's file and an execution trace are both converted to a schedule. ``schedule_program`` runs it, and
``schedule_arithmetic`` returns how long it takes at the rate of the links.

An operation starts when all operations of its rank in ``after`` have ended. Besides, operations of one queue start in
their order. Queues are the computations of a rank, the collectives of a group, the messages to a rank, and those from
it. A rank runs one computation at a time.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.jobs.job_spec import Collective
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

MAX_OPERATIONS: Final = 10_000
"""Operations of a rank in a step, whose times it reports in one line."""
MAX_RECEIVED: Final = 64 * 2**20
"""Bytes that a rank receives in a step at most: it keeps them until the end of the step, to check them."""


class OperationKind(StrEnum):
    """The kinds of operations."""

    COMPUTE = "compute"
    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLTOALL = "alltoall"
    BROADCAST = "broadcast"
    SEND = "send"
    RECEIVE = "receive"

    @property
    def collective(self) -> Collective | None:
        """The collective of a group; None for the other kinds."""
        return Collective(self.value) if self in _COLLECTIVES else None


_COLLECTIVES: Final = frozenset(
    {
        OperationKind.ALLREDUCE,
        OperationKind.ALLGATHER,
        OperationKind.REDUCE_SCATTER,
        OperationKind.ALLTOALL,
        OperationKind.BROADCAST,
    }
)


class Phase(StrEnum):
    """The part of a step to which an operation belongs."""

    LOAD = "load"
    """A batch from the storage host."""
    FORWARD = "forward"
    BACKWARD = "backward"
    TENSOR = "tensor"
    """Sums of a tensor group."""
    EXPERT = "expert"
    """Tokens to and from the experts."""
    PIPELINE = "pipeline"
    """Activations and their gradients between stages."""
    GRADIENTS = "gradients"
    """The gradients of the parameters, over a data group."""
    NORM = "norm"
    """The norm of all gradients, over all ranks: it ends the step of each of them."""
    CHECKPOINT = "checkpoint"
    TRACE = "trace"
    """An operation of an execution trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one rank."""

    kind: OperationKind
    phase: Phase
    after: tuple[int, ...] = ()
    """The operations of the same rank, by index, that must have ended before; all have lower indices."""
    seconds: float = 0.0
    """The duration of a computation."""
    size: int = 0
    """Bytes of a message, or of the larger buffer of a collective."""
    group: int = -1
    """The index of a collective's group."""
    peer: int = -1
    """The rank to or from which a message goes."""
    tag: int = 0
    """The tag of a message; sender and receiver have the same."""

    @property
    def queue(self) -> Hashable:
        """The queue of its rank in which it starts in order."""
        if self.kind is OperationKind.COMPUTE:
            return "compute"
        return (self.kind, self.peer) if self.group < 0 else self.group

    @property
    def received(self) -> int:
        """Bytes that it receives at most."""
        return 0 if self.kind in {OperationKind.COMPUTE, OperationKind.SEND} else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """One measured step of one rank; times are in ns."""

    begin_ns: int
    """On CLOCK_MONOTONIC, as the end."""
    end_ns: int
    operations: tuple[tuple[int, int], ...]
    """Start and end of each operation, after the begin of the step."""
    wrong: int
    """Wrong elements of this step and, in the first one, of those of the warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSchedule:
    """The operations of all ranks in all steps."""

    groups: tuple[tuple[int, ...], ...]
    """The ranks of each group, each with two or more."""
    variants: tuple[tuple[tuple[Operation, ...], ...], ...]
    """For each kind of step, the operations of each rank."""
    steps: tuple[int, ...]
    """The variant of each step, those of the warm-up first."""
    warmup: int = 0

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.variants[0])

    @property
    def measured(self) -> tuple[int, ...]:
        """The variant of each measured step."""
        return self.steps[self.warmup :]

    def plan(self, rank: int) -> bytes:
        """Return what ``schedule_program`` reads: groups, and the operations of one rank."""
        plan = {
            "groups": self.groups,
            "variants": [[_row(operation) for operation in variant[rank]] for variant in self.variants],
            "steps": self.steps,
            "warmup": self.warmup,
        }
        return json.dumps(plan).encode()


def _row(each: Operation) -> dict[str, object]:
    return {
        "kind": each.kind, "after": each.after, "seconds": each.seconds, "size": each.size,
        "group": each.group, "peer": each.peer, "tag": each.tag,
    }  # fmt: skip


def check_schedule(schedule: JobSchedule) -> None:
    """Raise UsageError for operations that cannot run: each message needs both ends, and each group one order."""
    for variant in schedule.variants:
        for rank, operations in enumerate(variant):
            _check_rank(rank, operations)
        _check_messages(variant)
        _check_groups(schedule.groups, variant)


def _check_rank(rank: int, operations: Sequence[Operation]) -> None:
    if len(operations) > MAX_OPERATIONS:
        raise UsageError(
            f"rank {rank} has {len(operations)} operations in a step",
            f"use at most {MAX_OPERATIONS}: fewer layers or micro-batches",
        )
    received = sum(operation.received for operation in operations)
    if received > MAX_RECEIVED:
        raise UsageError(
            f"rank {rank} receives {format_size(received)} in a step",
            f"use at most {format_size(MAX_RECEIVED)}: divide the sizes",
        )


def _check_messages(ranks: Sequence[Sequence[Operation]]) -> None:
    """Raise UsageError if a message has no receiver, no sender, or another size there."""
    ends = {kind: Counter(_messages(ranks, kind)) for kind in (OperationKind.SEND, OperationKind.RECEIVE)}
    sent, received = ends[OperationKind.SEND], ends[OperationKind.RECEIVE]
    for (source, target, tag, size), missing in (*(sent - received).items(), *(received - sent).items()):
        verb = "sends" if sent[source, target, tag, size] > received[source, target, tag, size] else "expects"
        one, other = (source, target) if verb == "sends" else (target, source)
        preposition = "to" if verb == "sends" else "from"
        raise UsageError(
            f"rank {one} {verb} {format_size(size)} {preposition} rank {other} with tag {tag}, and the other end "
            f"has {missing} fewer",
            "write both ends of each message, with the same size and tag",
        )


def _messages(ranks: Sequence[Sequence[Operation]], kind: OperationKind) -> Iterator[tuple[int, int, int, int]]:
    for rank, operations in enumerate(ranks):
        for each in operations:
            if each.kind is kind:
                ends = (rank, each.peer) if kind is OperationKind.SEND else (each.peer, rank)
                yield (*ends, each.tag, each.size)


def _check_groups(groups: Sequence[Sequence[int]], ranks: Sequence[Sequence[Operation]]) -> None:
    """Raise UsageError if the members of a group call different collectives, or the same in another order."""
    for number, group in enumerate(groups):
        calls = {rank: [(each.kind, each.size) for each in ranks[rank] if each.group == number] for rank in group}
        first = group[0]
        for rank in group[1:]:
            if calls[rank] != calls[first]:
                place = next(
                    (
                        index
                        for index, pair in enumerate(zip(calls[rank], calls[first], strict=False))
                        if len(set(pair)) > 1
                    ),
                    min(len(calls[rank]), len(calls[first])),
                )
                raise UsageError(
                    f"ranks {first} and {rank} differ in collective {place + 1} of their group",
                    "all ranks of a group call the same collectives, in the same order",
                )
