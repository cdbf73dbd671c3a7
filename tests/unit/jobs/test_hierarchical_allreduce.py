"""A hierarchical AllReduce by real MPI, whose rails use memory here: every rank has the sum of all buffers."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Final

import pytest

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
def without_rdma(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are processes of this machine, and MPI uses memory."""

    def start(_: NodeSession, argv: process.Argv, **rest: Any) -> process.Process:
        return process.start(argv, **rest)

    def environment(mpi: MpiLibrary, *_: Any) -> dict[str, str]:
        return {"UCX_MODULE_DIR": str(mpi.folder / "mpich" / "ucx"), "UCX_TLS": "posix,self"}

    monkeypatch.setattr(NodeSession, "start", start)
    monkeypatch.setattr(MpiLibrary, "environment", environment)
    monkeypatch.setattr(sysfs, "new_packets", lambda _: 0)


def nics(hosts: int, rails: int) -> list[Nic]:
    return [
        Nic(f"h{host}", f"eth{rail}", Namespace("none"), "none", ip_address("10.0.0.1"))
        for host in range(hosts)
        for rail in range(rails)
    ]


@pytest.mark.usefixtures("without_rdma")
@pytest.mark.parametrize(("hosts", "rails"), [(2, 2), (2, 3), (3, 2)])
def test_every_rank_has_the_sum(hosts: int, rails: int) -> None:
    made = run_job(
        nics(hosts, rails), SPEC, link_rate=10**9, report=lambda *_: None, patience=JobPatience(PATIENCE, PATIENCE)
    )
    assert (made.wrong, made.ranks_per_host, len(made.rows)) == (0, rails, 2)
