"""Schedules of training jobs: who belongs to which group, what a step sends, and its arithmetic."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from lab.errors import UsageError
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.jobs.rank_schedule import JobSchedule, Operation, OperationKind, Phase, check_schedule
from lab.jobs.schedule_arithmetic import step_seconds, transfers
from lab.jobs.training_schedule import pass_order, training_schedule
from lab.jobs.training_spec import load_training

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE: Final = 100_000_000
ALL: Final = """
ranks: 8
compute: 360ms
layers: 4
allreduce: 400000
tensor: {ranks: 2, allreduce: 50000}
pipeline: {ranks: 2, activations: 100000, microbatches: 3}
expert: {ranks: 2, alltoall: 80000}
"""
STORAGE: Final = "storage: {host: h9, load: 60000, checkpoint: 200000, every: 2}\n"


def schedule(text: str) -> JobSchedule:
    spec = load_training(text, "spec")
    assert spec.ranks is not None
    made = training_schedule(spec, [f"h{number}" for number in range(1, spec.ranks + 1 + (spec.storage is not None))])
    check_schedule(made)
    return made


def seconds(text: str, variant: int = 0) -> float:
    return step_seconds(schedule(text), variant, RATE)


def received(made: JobSchedule, phase: Phase, variant: int = 0) -> int:
    operations = made.variants[variant]
    ends = ((each, each.ends[0]) for each in transfers(operations))
    return sum(each.received for each, (rank, index) in ends if operations[rank][index].phase is phase)


def test_groups_are_numbered_as_megatron_numbers_them() -> None:
    """Tensor ranks are neighbours, then data ranks; a stage is the half of all."""
    groups = schedule(ALL).groups
    assert groups[:4] == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert groups[4:8] == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert groups[8] == tuple(range(8))
    assert groups[9:] == ((0, 2), (1, 3), (4, 6), (5, 7))


def test_each_phase_moves_its_bytes() -> None:
    """3 micro-batches, 4 layers, two passes with two collectives of each kind; 4 pairs of stages; 4 data groups."""
    made = schedule(ALL + STORAGE)
    passes = 3 * 4 * 2
    assert received(made, Phase.TENSOR) == 2 * passes * 2 * (2 * 50_000)
    assert received(made, Phase.EXPERT) == 2 * passes * 2 * 80_000
    assert received(made, Phase.PIPELINE) == 4 * 3 * 2 * 100_000
    assert received(made, Phase.GRADIENTS) == 4 * 2 * 400_000
    assert received(made, Phase.LOAD) == 4 * 60_000
    assert [received(made, Phase.CHECKPOINT, variant) for variant in (0, 1)] == [0, 8 * 200_000]
    assert made.steps == (0, 0, 1, 0, 1, 0)


def test_messages_have_whole_elements() -> None:
    """A rank would otherwise receive less than its buffer has, and count the rest as a wrong element."""
    text = ALL.replace("activations: 100000", "activations: 12583")
    made = schedule(text + "storage: {host: h9, load: 60001, checkpoint: 200003, every: 2}\n")
    sizes = {each.phase: each.size for variant in made.variants for rank in variant for each in rank if each.size}
    assert {phase: sizes[phase] for phase in (Phase.PIPELINE, Phase.LOAD, Phase.CHECKPOINT)} == {
        Phase.PIPELINE: 12580,
        Phase.LOAD: 60000,
        Phase.CHECKPOINT: 200000,
    }
    assert not any(size % ELEMENT_OCTETS for size in sizes.values())


def test_a_rank_computes_for_its_time_a_third_of_it_forward() -> None:
    for operations in schedule(ALL).variants[0]:
        spent: Counter[Phase] = Counter()
        for each in operations:
            spent[each.phase] += each.seconds  # type: ignore[assignment]
        assert (spent[Phase.FORWARD], spent[Phase.BACKWARD]) == pytest.approx((0.12, 0.24))


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("micro_batches", [1, 3, 8])
def test_a_stage_keeps_no_more_micro_batches_than_stages_follow(stages: int, micro_batches: int) -> None:
    for stage in range(stages):
        order = list(pass_order(stage, stages, micro_batches))
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            assert [number for each, number in order if each is phase] == list(range(micro_batches))
        kept = 0
        for phase, _ in order:
            kept += 1 if phase is Phase.FORWARD else -1
            assert 0 <= kept <= stages - stage


def test_one_data_group_takes_its_computation_and_the_bus_factor_of_its_gradients() -> None:
    text = "{ranks: 4, compute: 100ms, allreduce: 1000000}"
    assert seconds(text) == pytest.approx(0.1 + 1.5 * 8e6 / RATE)
    assert seconds(text[:-1] + ", data: {shard: true}}") == pytest.approx(0.1 + 1.5 * 8e6 / RATE, rel=1e-4)


def test_gradients_overlap_with_the_rest_of_the_backward_pass() -> None:
    """Four buckets of 30 ms: the first begins after a quarter of the backward pass, 400 ms / 4."""
    text = "{ranks: 4, compute: 600ms, allreduce: 1000000, data: {overlap: true}}"
    assert seconds(text) == pytest.approx(0.6 + 0.03)
    assert seconds(text.replace("600ms", "60ms")) == pytest.approx(0.02 + 0.01 + 4 * 0.03)


def test_a_pipeline_without_transfers_takes_its_micro_batches_and_the_bubble() -> None:
    """(m + p - 1) / m of the computation (Narayanan et al. 2021, section 2.2), with messages of some bytes."""
    text = "{ranks: 4, compute: 240ms, pipeline: {ranks: 4, activations: 4, microbatches: 6}}"
    assert seconds(text) == pytest.approx(0.240 * (6 + 4 - 1) / 6, rel=1e-4)


def test_checkpoints_share_the_storage_host_s_nic() -> None:
    text = "{ranks: 2, compute: 10ms, allreduce: 100000, storage: {host: h3, checkpoint: 500000}}"
    assert seconds(text, 1) == pytest.approx(seconds(text, 0) + 2 * 4e6 / RATE)


def message(kind: OperationKind, peer: int, *, after: tuple[int, ...] = (), size: int = 8) -> Operation:
    return Operation(kind=kind, phase=Phase.TRACE, peer=peer, size=size, after=after)


def of(*ranks: Sequence[Operation], groups: tuple[tuple[int, ...], ...] = ()) -> JobSchedule:
    return JobSchedule(groups=groups, variants=(tuple(map(tuple, ranks)),), steps=(0,))


def test_ranks_that_wait_for_each_other_are_named() -> None:
    one = [message(OperationKind.RECEIVE, 1), message(OperationKind.SEND, 1, after=(0,))]
    two = [message(OperationKind.RECEIVE, 0), message(OperationKind.SEND, 0, after=(0,))]
    with pytest.raises(UsageError, match=r"rank 0 never begins its operation 1 \(send\): ranks wait in a circle"):
        step_seconds(of(one, two), 0, RATE)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (of([message(OperationKind.SEND, 1)], []), "rank 0 sends 8 B to rank 1 with tag 0"),
        (of([], [message(OperationKind.RECEIVE, 0)]), "rank 1 expects 8 B from rank 0 with tag 0"),
        (of([message(OperationKind.SEND, 1)], [message(OperationKind.RECEIVE, 0, size=4)]), "rank 0 sends 8 B"),
        (
            of([Operation(kind=OperationKind.ALLREDUCE, phase=Phase.TRACE, group=0, size=8)], [], groups=((0, 1),)),
            "ranks 0 and 1 differ in collective 1 of their group",
        ),
        (
            of(*[[message(OperationKind.RECEIVE, 0, size=2**25)] * 3] * 2),
            "rank 0 receives 100.7 MB in a step: use at most 67.11 MB",
        ),
        (of([Operation(kind=OperationKind.COMPUTE, phase=Phase.TRACE)] * 10_001), "rank 0 has 10001 operations"),
    ],
)
def test_a_schedule_that_cannot_run_is_refused(made: JobSchedule, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_schedule(made)
    assert why in str(caught.value)


def test_operations_wait_for_earlier_ones_only() -> None:
    for operations in schedule(ALL + STORAGE).variants[1]:
        for number, each in enumerate(operations):
            assert all(before < number for before in each.after)
        computations = [number for number, each in enumerate(operations) if each.kind is OperationKind.COMPUTE]
        assert all(one < other for one, other in pairwise(computations))
