"""Convert a training job to a schedule: the operations of each rank in a step.

Ranks are numbered as Megatron-LM numbers them (Narayanan et al. 2021, arXiv:2104.04473): those of a tensor group are
neighbours, then come the data ranks, and last the stages of the pipeline. An expert group is a part of a data group.
Micro-batches run in the order "one forward, one backward" (1F1B): a stage runs as many forward passes as stages
follow it, and then one backward pass after each forward pass.

A backward pass takes twice as long as a forward pass, as its matrix products are twice as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.jobs.rank_schedule import JobSchedule, Operation, OperationKind, Phase
from lab.jobs.training_spec import group_conflict
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.jobs.training_spec import TrainingSpec

_FORWARD: Final = 1 / 3
"""The part of a computation that is the forward pass."""
_STORAGE_TAG: Final = 1_000_000
"""The tag of batches; that of checkpoints follows it. Tags of the pipeline are below."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A rank by its numbers in the tensor group, in the data group and in the pipeline."""

    tensor: int
    data: int
    stage: int


class _Layout:
    """The groups of a job, and the places of its ranks."""

    def __init__(self, spec: TrainingSpec, ranks: int) -> None:
        self.tensor, self.stages, self.expert = spec.tensor_ranks, spec.stages, spec.expert_ranks
        self.data = ranks // (self.tensor * self.stages)
        self.places = [
            _Place(tensor, data, stage)
            for stage in range(self.stages)
            for data in range(self.data)
            for tensor in range(self.tensor)
        ]
        number = {place: rank for rank, place in enumerate(self.places)}
        kinds: dict[Phase, list[tuple[int, ...]]] = {
            Phase.TENSOR: [
                tuple(number[_Place(each, data, stage)] for each in range(self.tensor))
                for stage in range(self.stages)
                for data in range(self.data)
            ],
            Phase.GRADIENTS: [
                tuple(number[_Place(tensor, each, stage)] for each in range(self.data))
                for stage in range(self.stages)
                for tensor in range(self.tensor)
            ],
            Phase.NORM: [tuple(range(ranks))] if self.tensor > 1 or self.stages > 1 else [],
        }
        kinds[Phase.EXPERT] = [
            group[first : first + self.expert]
            for group in kinds[Phase.GRADIENTS]
            for first in range(0, self.data, self.expert)
        ]
        self.number = number
        self.groups: list[tuple[int, ...]] = []
        self._of: dict[tuple[Phase, int], int] = {}
        for phase, groups in kinds.items():
            for group in groups:
                if len(group) > 1:
                    self._of |= {(phase, rank): len(self.groups) for rank in group}
                    self.groups.append(group)

    def group(self, phase: Phase, rank: int) -> int | None:
        """Return the index of a rank's group; None if it is alone in it."""
        return self._of.get((phase, rank))


class _RankSteps:
    """The operations of one rank, while they are added."""

    def __init__(self, spec: TrainingSpec, layout: _Layout, rank: int, seconds: float) -> None:
        self.spec, self.layout, self.rank, self.seconds = spec, layout, rank, seconds
        self.place = layout.places[rank]
        self.operations: list[Operation] = []
        self.last: tuple[int, ...] = ()
        """The operations that the next one of the rank's own computation waits for."""

    def add(self, kind: OperationKind, phase: Phase, *, after: Sequence[int] | None = None, **fields: Any) -> int:
        """Add an operation, after those of the computation so far unless ``after`` says otherwise."""
        waits = self.last if after is None else tuple(after)
        self.operations.append(Operation(kind=kind, phase=phase, after=waits, **fields))
        return len(self.operations) - 1

    def then(self, kind: OperationKind, phase: Phase, **fields: Any) -> None:
        """Add an operation for which the computation waits."""
        self.last = (self.add(kind, phase, **fields),)

    def compute(self, phase: Phase, seconds: float, *, parts: int = 1) -> list[int]:
        """Add a computation in equal parts, and return them."""
        made: list[int] = []
        for _ in range(parts):
            self.then(OperationKind.COMPUTE, phase, seconds=seconds / parts)
            made += self.last
        return made

    def collective(self, phase: Phase, kind: OperationKind, size: int) -> None:
        """Add a collective for which the computation waits, if the rank has a group for it."""
        group = self.layout.group(phase, self.rank)
        if group is not None:
            self.then(kind, phase, group=group, size=_fitted(size, kind, len(self.layout.groups[group])))

    def within_layer(self, *phases: Phase) -> None:
        """Add the collectives of a layer in their order."""
        for phase in phases:
            if phase is Phase.TENSOR and self.spec.tensor is not None:
                self.collective(phase, OperationKind.ALLREDUCE, self.spec.tensor.allreduce)
            if phase is Phase.EXPERT and self.spec.expert is not None:
                self.collective(phase, OperationKind.ALLTOALL, self.spec.expert.alltoall)

    def run(self, phase: Phase, micro_batch: int, *, parts: int = 1) -> list[int]:
        """Add a forward or backward pass of a micro-batch; return its computations, each in ``parts``."""
        forward = phase is Phase.FORWARD
        step, tag = (1 if forward else -1), 2 * micro_batch + (not forward)
        stage, spec = self.place.stage, self.spec
        before, after = self._stage(stage - step), self._stage(stage + step)
        octets = _whole(spec.pipeline.activations) if spec.pipeline is not None else 0
        if before is not None:
            message = self.add(OperationKind.RECEIVE, Phase.PIPELINE, after=(), peer=before, tag=tag, size=octets)
            self.last = (*self.last, message)
        share = _FORWARD if forward else 1 - _FORWARD
        layers = spec.model_layers // spec.stages
        halves = spec.halves
        seconds = self.seconds * share / (spec.microbatches * layers * halves)
        made: list[int] = []
        for _ in range(layers):
            made += self.compute(phase, seconds, parts=parts)
            self.within_layer(Phase.TENSOR, Phase.EXPERT)
            if halves > 1:
                made += self.compute(phase, seconds, parts=parts)
                self.within_layer(Phase.EXPERT, Phase.TENSOR)
        if after is not None:
            self.add(OperationKind.SEND, Phase.PIPELINE, peer=after, tag=tag, size=octets)
        return made

    def _stage(self, stage: int) -> int | None:
        """Return the rank of another stage at the same place; None outside the pipeline."""
        return self.layout.number.get(_Place(self.place.tensor, self.place.data, stage))

    def gradients(self, backward: Sequence[int]) -> None:
        """Add the sums of the gradients, in buckets, each after its part of the last backward pass."""
        group = self.layout.group(Phase.GRADIENTS, self.rank)
        if group is None or self.spec.allreduce is None:
            return
        ranks, scatter = len(self.layout.groups[group]), self.spec.data.shard
        buckets = self.spec.buckets(len(self.layout.places))
        ready = [
            (backward[-(-(number + 1) * len(backward) // buckets) - 1],) if self.spec.data.overlap else self.last
            for number in range(buckets)
        ]
        kind = OperationKind.REDUCE_SCATTER if scatter else OperationKind.ALLREDUCE
        sizes = [_fitted(size, kind, ranks) for size in parts_of(self.spec.allreduce, buckets)]
        sums = [
            self.add(kind, Phase.GRADIENTS, after=after, group=group, size=size)
            for after, size in zip(ready, sizes, strict=True)
        ]
        if scatter:
            sums = [
                self.add(OperationKind.ALLGATHER, Phase.GRADIENTS, after=(each,), group=group, size=size)
                for each, size in zip(sums, sizes, strict=True)
            ]
        self.last = (*self.last, *sums)


def parts_of(size: int, buckets: int) -> list[int]:
    """Return the sizes of the buckets of gradients: whole elements, the last bucket with the rest."""
    part = size // buckets // ELEMENT_OCTETS * ELEMENT_OCTETS
    return [part] * (buckets - 1) + [size - part * (buckets - 1)]


def _fitted(size: int, kind: OperationKind, ranks: int) -> int:
    """Return a size rounded down to whole elements, or to equal parts, but at least one element for each rank."""
    collective = kind.collective
    unit = ELEMENT_OCTETS * (ranks if collective is not None and collective.is_divided else 1)
    return max(unit, size - size % unit)


def _whole(size: int) -> int:
    """Return the bytes of the whole elements in a message."""
    return size - size % ELEMENT_OCTETS


def pass_order(stage: int, stages: int, micro_batches: int) -> Iterator[tuple[Phase, int]]:
    """Yield the forward and backward passes of a stage in the order 1F1B."""
    ahead = min(stages - stage - 1, micro_batches)
    yield from ((Phase.FORWARD, number) for number in range(ahead))
    yield from chain.from_iterable(
        ((Phase.FORWARD, number), (Phase.BACKWARD, number - ahead)) for number in range(ahead, micro_batches)
    )
    yield from ((Phase.BACKWARD, number) for number in range(micro_batches - ahead, micro_batches))


def training_schedule(spec: TrainingSpec, hosts: Sequence[str]) -> JobSchedule:
    """Return the schedule of a job whose rank 0 is on the first host; the rank on the storage host is the last.

    UsageError if the groups do not divide the ranks, or ``slower`` names a host without a rank.
    """
    ranks = len(hosts) - (spec.storage is not None)
    conflict = group_conflict(spec, ranks)
    if conflict is not None:
        key, message, remedy = conflict
        raise UsageError(f"{key} {message}", remedy)
    for host in spec.slower:
        if host not in hosts[:ranks]:
            known = f"ranks run on {', '.join(hosts[:ranks])}"
            raise UsageError(f"slower: {host} runs no rank", suggest(host, hosts[:ranks], known))
    layout = _Layout(spec, ranks)
    every = spec.storage.every if spec.storage is not None and spec.storage.checkpoint else 0
    variants = [_step(spec, layout, hosts[:ranks], saves=False)]
    if every:
        variants.append(_step(spec, layout, hosts[:ranks], saves=True))
    count = spec.warmup + spec.steps
    steps = tuple(
        int(bool(every) and number >= spec.warmup and (number - spec.warmup + 1) % every == 0)
        for number in range(count)
    )
    return JobSchedule(groups=tuple(layout.groups), variants=tuple(variants), steps=steps, warmup=spec.warmup)


def _step(
    spec: TrainingSpec, layout: _Layout, hosts: Sequence[str], *, saves: bool
) -> tuple[tuple[Operation, ...], ...]:
    """Return the operations of all ranks; ``saves`` is whether the step ends with a checkpoint."""
    made = [
        _rank_step(_RankSteps(spec, layout, rank, spec.compute_of(host)), saves=saves)
        for rank, host in enumerate(hosts)
    ]
    if spec.storage is not None:
        made.append(_storage_step(spec, layout, saves=saves))
    return tuple(made)


def _rank_step(rank: _RankSteps, *, saves: bool) -> tuple[Operation, ...]:
    spec, layout = rank.spec, rank.layout
    storage = len(layout.places)
    if spec.storage is not None and spec.storage.load and rank.place.stage == 0:
        size = _whole(spec.storage.load)
        rank.then(OperationKind.RECEIVE, Phase.LOAD, peer=storage, tag=_STORAGE_TAG, size=size)
    passes = list(pass_order(rank.place.stage, layout.stages, spec.microbatches))
    backward: list[int] = []
    buckets = spec.buckets(len(layout.places))
    for phase, number in passes:
        is_last = (phase, number) == passes[-1]
        parts = (
            -(-buckets * layout.stages // (spec.halves * spec.model_layers)) if is_last and spec.data.overlap else 1
        )
        backward = rank.run(phase, number, parts=parts)
    rank.gradients(backward)
    rank.collective(Phase.NORM, OperationKind.ALLREDUCE, ELEMENT_OCTETS)
    if saves and spec.storage is not None:
        size = _whole(spec.storage.checkpoint or 0)
        rank.then(OperationKind.SEND, Phase.CHECKPOINT, peer=storage, tag=_STORAGE_TAG + 1, size=size)
    return tuple(rank.operations)


def _storage_step(spec: TrainingSpec, layout: _Layout, *, saves: bool) -> tuple[Operation, ...]:
    """Return the operations of the rank on the storage host: batches to the first stage, checkpoints of all ranks."""
    storage = spec.storage
    assert storage is not None  # noqa: S101 - its caller looked
    made = []
    if storage.load:
        size = _whole(storage.load)
        made += [
            Operation(kind=OperationKind.SEND, phase=Phase.LOAD, peer=rank, tag=_STORAGE_TAG, size=size)
            for rank, place in enumerate(layout.places)
            if place.stage == 0
        ]
    if saves:
        made += [
            Operation(
                kind=OperationKind.RECEIVE,
                phase=Phase.CHECKPOINT,
                peer=rank,
                tag=_STORAGE_TAG + 1,
                size=_whole(storage.checkpoint or 0),
            )
            for rank in range(len(layout.places))
        ]
    return tuple(made)
