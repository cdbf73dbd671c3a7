"""A hierarchical AllReduce by real MPI, whose rails use memory here: every rank has the sum of all buffers."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

import pytest

from lab.errors import OperationFailed
from lab.jobs.collective_job import run_job
from lab.jobs.job_session import JobPatience
from lab.jobs.job_spec import Collective, JobSpec
from lab.jobs.mpi_library import MpiLibrary
from lab.kernel.process import process
from lab.kernel.process.netns import Namespace
from lab.kernel.process.node_session import NodeSession
from lab.rdma import sysfs
from lab.rdma.measure import Nic
from tests.patience import PATIENCE

SIZE: Final = 4 * 6 * 1000
SPEC: Final = JobSpec(
    collective=Collective.ALLREDUCE, sizes=(SIZE // 2, SIZE), iterations=2, warmup=1, algorithm="hierarchical"
)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[process.Process]:
    """Ranks are processes of this machine, and MPI uses memory."""
    started: list[process.Process] = []

    def start(_: NodeSession, argv: process.Argv, **rest: Any) -> process.Process:
        started.append(process.start(argv, **rest))
        return started[-1]

    def environment(mpi: MpiLibrary, *_: Any) -> dict[str, str]:
        return {"UCX_MODULE_DIR": str(mpi.folder / "mpich" / "ucx"), "UCX_TLS": "posix,self"}

    monkeypatch.setattr(NodeSession, "start", start)
    monkeypatch.setattr(MpiLibrary, "environment", environment)
    monkeypatch.setattr(sysfs, "new_packets", lambda _: 0)
    return started


def nics(hosts: int, rails: int) -> list[Nic]:
    return [
        Nic(f"h{host}", f"eth{rail}", Namespace("none"), "none", ip_address("10.0.0.1"))
        for host in range(hosts)
        for rail in range(rails)
    ]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("hosts", "rails"), [(2, 2), (2, 3), (3, 2)])
def test_every_rank_has_the_sum(hosts: int, rails: int) -> None:
    made = run_job(
        nics(hosts, rails), SPEC, link_rate=10**9, report=lambda *_: None, patience=JobPatience(PATIENCE, PATIENCE)
    )
    assert (made.wrong, made.ranks_per_host, len(made.rows)) == (0, rails, 2)


def test_a_rank_that_dies_ends_those_that_wait_for_it(processes: list[process.Process]) -> None:
    """The other rank of its host waits at an eventfd, which nobody would ever write."""

    def kill_one(stage: str, done: int, of: int) -> None:
        if (stage, done) == ("start", of) and processes[1].poll() is None:
            processes[1].kill()

    with pytest.raises(OperationFailed, match=r"rank 1 at h0 was killed \(SIGKILL\) in step"):
        run_job(
            nics(2, 2), replace(SPEC, iterations=10_000), link_rate=10**9, report=kill_one,
            patience=JobPatience(PATIENCE, PATIENCE),
        )  # fmt: skip
    assert None not in [each.poll() for each in processes]
