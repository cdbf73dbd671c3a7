"""Ranks that run a schedule by real MPI, over shared memory: right data, overlap, and wrong data that is noticed."""

from __future__ import annotations

import ctypes
import json
import os
from ipaddress import ip_address
from typing import Any, Final

import pytest

from lab.errors import OperationFailed
from lab.jobs import mpi_library, schedule_program
from lab.jobs.job_session import JobPatience, Rank, module_argv, run_ranks
from lab.jobs.mpi_library import MpiLibrary, overlapping_variables
from lab.jobs.rank_program import PERIOD, pattern
from lab.jobs.rank_schedule import JobSchedule, Operation, OperationKind, Phase, check_schedule
from lab.jobs.schedule_program import StepVariant, aligned, expected, salt
from lab.kernel.process import process
from lab.kernel.process.netns import Namespace
from lab.kernel.process.node_session import NodeSession
from lab.rdma import sysfs
from lab.rdma.measure import Nic
from tests.patience import PATIENCE

pytestmark = pytest.mark.timeout(120)
RANKS: Final = 4
GROUPS: Final = ((0, 1, 2, 3), (0, 1), (2, 3))
SIZE: Final = 48_000


def operations(rank: int) -> tuple[Operation, ...]:
    """Every kind of operation: two collectives in each pair of ranks at once, and a ring of messages."""
    pair = 1 + rank // 2
    trace = Phase.TRACE
    return (
        Operation(kind=OperationKind.COMPUTE, phase=trace, seconds=0.01),
        Operation(kind=OperationKind.ALLREDUCE, phase=trace, group=0, size=SIZE, after=(0,)),
        Operation(kind=OperationKind.COMPUTE, phase=trace, seconds=0.02, after=(0,)),
        Operation(kind=OperationKind.ALLTOALL, phase=trace, group=pair, size=SIZE, after=(1, 2)),
        Operation(kind=OperationKind.REDUCE_SCATTER, phase=trace, group=pair, size=SIZE, after=(2,)),
        Operation(kind=OperationKind.ALLGATHER, phase=trace, group=pair, size=SIZE, after=(4,)),
        Operation(kind=OperationKind.BROADCAST, phase=trace, group=0, size=SIZE),
        Operation(kind=OperationKind.SEND, phase=trace, peer=(rank + 1) % RANKS, tag=3, size=8 * SIZE),
        Operation(kind=OperationKind.RECEIVE, phase=trace, peer=(rank - 1) % RANKS, tag=3, size=8 * SIZE),
    )


MADE: Final = JobSchedule(groups=GROUPS, variants=(tuple(map(operations, range(RANKS))),), steps=(0, 0, 0), warmup=1)


@pytest.fixture
def mpi(monkeypatch: pytest.MonkeyPatch) -> MpiLibrary:
    """MPI without namespaces and RDMA devices."""

    def start(_: NodeSession, argv: process.Argv, **rest: Any) -> process.Process:
        return process.start(argv, **rest)

    monkeypatch.setattr(NodeSession, "start", start)
    monkeypatch.setattr(sysfs, "new_packets", lambda _: 0)
    return mpi_library.find_mpi()


def ranks_of(mpi: MpiLibrary, schedule: JobSchedule, algorithm: str) -> list[Rank]:
    common = {
        "PATH": os.defpath,
        "PMI_SIZE": str(schedule.ranks),
        "UCX_MODULE_DIR": str(mpi.folder / "mpich" / "ucx"),
        "UCX_TLS": "posix,self",
        **overlapping_variables(algorithm),
    }
    return [
        Rank(
            number=rank,
            nic=Nic(f"h{rank}", "eth1", Namespace("none"), "none", ip_address("10.0.0.1")),
            argv=module_argv(schedule_program.__name__, mpi.abi),
            plan=schedule.plan(rank),
            environment={**common, "PMI_RANK": str(rank)},
        )
        for rank in range(schedule.ranks)
    ]


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_every_rank_has_the_right_data(mpi: MpiLibrary, algorithm: str) -> None:
    check_schedule(MADE)
    ranks = ranks_of(mpi, MADE, algorithm)
    assert run_ranks(ranks, JobPatience(PATIENCE, PATIENCE), lambda *_: None) > 0
    for rank in ranks:
        assert [step.wrong for step in rank.scheduled] == [0, 0]
        for step in rank.scheduled:
            times = step.operations
            assert times[0][1] - times[0][0] >= 10_000_000
            assert times[1][0] >= times[0][1]
            assert times[2][0] < times[1][1] or times[1][1] <= times[2][1]
            assert times[3][0] >= max(times[1][1], times[2][1])
            assert max(end for _, end in times) <= step.end_ns - step.begin_ns


def test_a_message_that_is_too_short_is_noticed(mpi: MpiLibrary) -> None:
    """No checked schedule has it: the second half of the receiver's buffer is as it was before the step."""
    trace, size = Phase.TRACE, 4000
    sends = Operation(kind=OperationKind.SEND, phase=trace, peer=1, size=size // 2)
    receives = Operation(kind=OperationKind.RECEIVE, phase=trace, peer=0, size=size)
    ranks = ranks_of(mpi, JobSchedule(groups=(), variants=(((sends,), (receives,)),), steps=(0,)), "ring")
    run_ranks(ranks, JobPatience(PATIENCE, PATIENCE), lambda *_: None)
    assert ranks[0].scheduled[0].wrong == 0
    assert ranks[1].scheduled[0].wrong >= size // 2 // 4


@pytest.mark.parametrize(
    ("size", "tag", "why"), [(4000, 0, "a message is longer than its buffer"), (8, 1 << 30, "Inv")]
)
def test_an_error_of_mpi_is_in_the_error_of_the_job(mpi: MpiLibrary, size: int, tag: int, why: str) -> None:
    """No checked schedule has it."""
    trace = Phase.TRACE
    sends = Operation(kind=OperationKind.SEND, phase=trace, peer=1, size=size, tag=tag)
    receives = Operation(kind=OperationKind.RECEIVE, phase=trace, peer=0, size=8, tag=tag)
    ranks = ranks_of(mpi, JobSchedule(groups=(), variants=(((sends,), (receives,)),), steps=(0,)), "ring")
    with pytest.raises(OperationFailed, match=f"rank [01] at h[01].* ended with 1 in step 1: .* failed: {why}"):
        run_ranks(ranks, JobPatience(PATIENCE, PATIENCE), lambda *_: None)


def test_messages_with_tags_may_arrive_in_another_order(mpi: MpiLibrary) -> None:
    trace = Phase.TRACE
    sends = [Operation(kind=OperationKind.SEND, phase=trace, peer=1, size=4000, tag=tag) for tag in (1, 2, 2)]
    receives = [Operation(kind=OperationKind.RECEIVE, phase=trace, peer=0, size=4000, tag=tag) for tag in (2, 1, 2)]
    made = JobSchedule(groups=(), variants=((tuple(sends), tuple(receives)),), steps=(0,))
    check_schedule(made)
    ranks = ranks_of(mpi, made, "ring")
    run_ranks(ranks, JobPatience(PATIENCE, PATIENCE), lambda *_: None)
    assert [rank.scheduled[0].wrong for rank in ranks] == [0, 0]


def test_kinds_of_steps_share_their_buffers(mpi: MpiLibrary) -> None:
    """A trace may have a kind for each step, whose buffers together would not fit into memory."""
    trace = Phase.TRACE
    first = [Operation(kind=kind, phase=trace, group=0, size=4004) for kind in (OperationKind.ALLREDUCE,) * 2]
    second = [Operation(kind=OperationKind.ALLTOALL, phase=trace, group=0, size=8000), *first]
    made = JobSchedule(groups=((0, 1),), variants=((tuple(first),) * 2, (tuple(second),) * 2), steps=(0, 1, 0, 1))
    plan = json.loads(made.plan(0))
    memory = bytearray(aligned(8000) + 2 * aligned(4004))
    variants = [StepVariant(operations, made.groups, memory) for operations in plan["variants"]]
    variants[0].received[0][:4] = b"same"
    assert variants[1].received[0][:4] == b"same"
    addresses = [ctypes.addressof(each) for each in variants[1].received.values()]
    assert [each - addresses[0] for each in addresses] == [0, 8000, 8000 + 4032]
    ranks = ranks_of(mpi, made, "ring")
    run_ranks(ranks, JobPatience(PATIENCE, PATIENCE), lambda *_: None)
    assert [step.wrong for rank in ranks for step in rank.scheduled] == [0] * 8


def test_patterns_of_two_operations_differ() -> None:
    """Otherwise, a message in the place of another would look right."""
    operation = {"kind": "receive", "size": 4000, "tag": 0, "group": -1, "peer": 0}
    seen = {
        expected(operation | {"tag": tag}, 1, [0], salt(operation | {"tag": tag}, turn, step))
        for tag in range(2)
        for turn in range(3)
        for step in range(3)
    }
    assert len(seen) == 18
    assert pattern(1, PERIOD, 10) == pattern(1, 0, 10)
