"""Windows in which a training job has a wrong setting, a slow host, or crosses rails, and such as are like them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.diagnose.facts import FailedJob, PortFacts
from lab.telemetry.read.recorded_jobs import JobDescription, jobs_of
from tests.unit.diagnose.made_facts import FULL, PACKETS, facts
from tests.unit.telemetry.jobs.made_job import HOSTS, steps

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts
    from lab.telemetry.read.recorded_jobs import RecordedJob
    from tests.unit.diagnose.made_facts import Lanes


def job_of(excess: dict[int, int]) -> tuple[RecordedJob, ...]:
    """A training job of three steps, in which ranks compute so many ms longer than 100 ms."""
    rows = sorted(steps([60] * 3, excess), key=lambda row: row["ns"])
    return jobs_of((row["ns"], row) for row in rows)


def railed(lanes: Lanes, *hosts: str) -> WindowFacts:
    """A job with ranks on h1 and h2 at leaf1, and on h5 and h6 at leaf2; some hosts have a second NIC, at leaf1."""
    made = facts(lanes, jobs=job_of({}))
    more = {f"{host}:eth2": PortFacts(f"{host}:eth2", f"leaf1:swp1{host[1:]}", host=True) for host in hosts}
    return replace(made, ports={**made.ports, **more})


def classed(tclass: int, **others: object) -> WindowFacts:
    """A job with this traffic class, whose ranks send all of their packets in priority 0, as their devices count."""
    lanes: Lanes = {f"{host}:eth1/0": {"tx_bytes": FULL // 4, "tx_packets": PACKETS // 4} for host in HOSTS}
    peers = {"h1": "leaf1:swp3", "h2": "leaf1:swp4", "h5": "leaf2:swp3", "h6": "leaf2:swp4"}
    lanes |= {f"{peers[host]}/0": {"rx_bytes": FULL // 4, "rx_packets": PACKETS // 4} for host in HOSTS}
    (job,) = job_of({})
    about = JobDescription(
        ns=job.end, job=job.name, began=job.begin, size=2**20, roofline=0.15, tclass=tclass, qps=()
    )
    devices = {host: {"sent_pkts": PACKETS // 4} for host in HOSTS}
    return facts(lanes, jobs=(replace(job, about=about),), devices=devices, **others)


CROSSING: Lanes = {
    "leaf1:swp1": {"tx_bytes": FULL // 2, "tx_packets": PACKETS // 2, "depth": 90_000.0, "deepest": 190_000},
    "leaf1:swp3": {"pauses_out": 12, "resumes_out": 12},
}
"""An uplink of leaf1 whose queue fills while the ranks communicate, so that h1 is paused."""
NOT_STARTED = FailedJob(0.5, "ring", ("h1:eth1", "h2:eth1"), 4096, "rank 1 at h2 failed")
"""A job whose library uses 4096 bytes without asking."""
CASES: list[tuple[str, str, WindowFacts, WindowFacts]] = [
    (
        "mtu-not-negotiated", "h2:eth1",
        facts({}, failed_jobs=(NOT_STARTED,), mtus={"h1:eth1": 9000, "h2:eth1": 1500}),
        facts({}, failed_jobs=(replace(NOT_STARTED, mtu=None),), mtus={"h1:eth1": 9000, "h2:eth1": 1500}),
    ),
    (
        "mtu-not-negotiated", "h2:eth1",
        facts({}, failed_jobs=(NOT_STARTED,), mtus={"h1:eth1": 9000, "h2:eth1": 1500}),
        facts({}, failed_jobs=(NOT_STARTED,), mtus={"h1:eth1": 9000, "h2:eth1": 9000}),
    ),
    ("straggler-host", "h5", facts({}, jobs=job_of({2: 40})), facts({}, jobs=job_of({2: 9}))),
    ("rail-misaligned-placement", "leaf1:swp1", railed(CROSSING, "h5", "h6"), railed(CROSSING, "h5")),
    (
        "rail-misaligned-placement", "leaf1:swp1",
        railed(CROSSING, "h5", "h6"),
        railed({"leaf1:swp1": {"tx_bytes": FULL // 2, "tx_packets": PACKETS // 2}}, "h5", "h6"),
    ),
    ("wrong-traffic-class", "h1:eth1", classed(26), classed(106)),
]  # fmt: skip
