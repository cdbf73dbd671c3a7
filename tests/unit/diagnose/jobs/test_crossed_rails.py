"""Ranks on different rails: the jobs and uplinks that count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.diagnose.symptoms.crossed_rails import ranks_cross_rails
from lab.jobs.rank_qp import RankQp
from lab.telemetry.read.recorded_jobs import JobDescription
from tests.unit.diagnose.jobs.made_jobs import CROSSING, railed

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts


def places(window: WindowFacts) -> list[str]:
    return [sign.place for sign in ranks_cross_rails(window)]


@pytest.mark.parametrize(
    ("path", "found"),
    [(("h1:eth1", "leaf1:swp1", "spine1:swp2"), ["leaf1:swp1"]), (("h1:eth1", "leaf1:swp2", "spine2:swp2"), [])],
)
def test_an_uplink_that_no_qp_of_the_job_passes_is_filled_by_others(path: tuple[str, ...], found: list[str]) -> None:
    window = railed(CROSSING, "h5", "h6")
    (job,) = window.jobs
    qp = RankQp(rank=0, qpn=1, peer_rank=2, peer_qpn=1, source_port=49152, path=path)
    about = JobDescription(ns=1, job=job.name, began=0, size=1000, roofline=0.1, tclass=104, qps=(qp,))
    assert places(replace(window, jobs=(replace(job, about=about),))) == found
    assert places(window) == ["leaf1:swp1"]


def test_a_job_with_several_ranks_on_a_host_may_use_all_rails() -> None:
    window = railed(CROSSING, "h5", "h6")
    (job,) = window.jobs
    nics = [("h5", "eth1"), ("h5", "eth2"), ("h6", "eth2"), ("h6", "eth1")]
    steps = []
    for step in job.steps:
        placed = zip(step.ranks, nics, strict=True)
        ranks = tuple(replace(rank, node=node, interface=interface) for rank, (node, interface) in placed)
        steps.append(replace(step, ranks=ranks))
    assert places(replace(window, jobs=(replace(job, steps=tuple(steps)),))) == []
