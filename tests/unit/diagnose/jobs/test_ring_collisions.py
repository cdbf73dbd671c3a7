"""Rings of a job that share an uplink beside an idle one: they send for a part of each step only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.symptoms.path_symptoms import few_flows_on_one_uplink
from lab.jobs.rank_qp import RankQp
from lab.telemetry.read.recorded_jobs import JobDescription
from tests.unit.diagnose.jobs.made_jobs import job_of
from tests.unit.diagnose.made_facts import FULL, PACKETS, facts, writing

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts

HALF: dict[str, Any] = {"tx_bytes": FULL // 2, "tx_packets": PACKETS // 2, "depth": 90_000.0, "deepest": 250_000}
"""An uplink that the rings fill for half of the time."""
PAUSED = {"leaf1:swp3": {"pauses_out": 12, "resumes_out": 12}}
SHARED, IDLE = ("h1:eth1", "leaf1:swp1", "spine1:swp2"), ("h2:eth1", "leaf1:swp2", "spine2:swp2")


def rings(*paths: tuple[str, ...], **lanes: Any) -> WindowFacts:
    """A job of h1, h2, h5 and h6 with two rings, whose QPs have these paths."""
    arrived = {"rx_bytes": HALF["tx_bytes"], "rx_packets": HALF["tx_packets"]}
    window = facts(
        {"leaf1:swp1": HALF, "spine1:swp1": arrived, **PAUSED, **lanes}, transfers=writing("h1:h5", "h2:h6", qps=1)
    )
    (job,) = job_of({})
    qps = tuple(
        RankQp(rank=rank, qpn=17, peer_rank=rank + 2, peer_qpn=17, source_port=65472, path=path)
        for rank, path in enumerate(paths)
    )
    about = JobDescription(ns=1, job=job.name, began=0, size=1000, roofline=0.1, tclass=106, qps=qps)
    return replace(window, jobs=(replace(job, about=about),))


def places(window: WindowFacts) -> list[str]:
    return [sign.place for sign in few_flows_on_one_uplink(window)]


def test_two_rings_on_one_uplink_are_a_collision() -> None:
    marked = {**HALF, "marked": PACKETS // 4}
    (cause,) = diagnose(rings(SHARED, SHARED, **{"leaf1:swp1": marked})).causes
    assert (cause.cause, cause.places) == ("elephant-collision", ("leaf1:swp1",))


@pytest.mark.parametrize(
    "window",
    [
        rings(SHARED, IDLE),
        rings(SHARED),
        replace(rings(SHARED, SHARED), jobs=job_of({})),
        rings(SHARED, SHARED, **{"leaf1:swp1": {**HALF, "depth": 0.0}}),
        rings(SHARED, SHARED, **{"leaf1:swp3": {}}),
        rings(SHARED, SHARED, **{"leaf1:swp2": HALF}),
    ],
    ids=["one ring", "one QP", "no paths", "no queue", "no pause", "both uplinks"],
)
def test_less_than_that_is_none(window: WindowFacts) -> None:
    assert places(window) == []
