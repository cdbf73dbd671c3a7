"""Ranks on different rails: a ring that one leaf could carry crosses the spine, and a step takes twice as long there.

Story
    Given  h1 to h4 train with a rank on the first NIC of each, all on leaf1: a ring sums the gradients of each step
    When   the scheduler places the ranks of h2 and h4 on their second NICs, on leaf2
    Then   every part of the ring crosses the spine, two QPs share each leaf's uplink, and the sum takes twice as long
    And    parts wait at both uplinks, no packet is lost, and no link, session or NIC has a fault
    When   all ranks are on the first rail again
    Then   a step takes as long as before, and no packet crosses the spine

        aligned      h1:eth1 > h2:eth1 > h3:eth1 > h4:eth1      by leaf1
        misaligned   h1:eth1 > h2:eth2 > h3:eth1 > h4:eth2      by leaf1, spine1 and leaf2, and back

Numbers
    a rank of four sends 3/2 of the gradients, 1.8 MB: 0.147 s at 100 Mb/s with all headers, and 0.294 s at 50
    an uplink of 100 Mb/s carries two of the ring's four QPs in each direction: 50 Mb/s each
    two parts of 300 kB come at 200 Mb/s and leave at 100: up to 300 kB wait
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, LOSSLESS, growth, listed
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.training import allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

HOSTS: Final = ("h1", "h2", "h3", "h4")
ALIGNED: Final = ("h1:eth1", "h2:eth1", "h3:eth1", "h4:eth1")
MISALIGNED: Final = ("h1:eth1", "h2:eth2", "h3:eth1", "h4:eth2")
UPLINKS: Final = ("leaf1:swp1", "leaf2:swp1")
RATE: Final = 100e6
SHARING: Final = 2
"""QPs of the ring in each direction of an uplink."""
SIZE: Final = 1_200_000
PART: Final = SIZE / len(HOSTS)
"""Bytes that a rank sends to the next at once."""
COMPUTE: Final = 0.1
"""Seconds of the computation of a step."""


def job_of(nics: tuple[str, ...]) -> str:
    """Return the job with its ranks on these NICs. One bucket: the parts of the ring have 300 kB."""
    return (
        f"{{name: ring, hosts: [{', '.join(nics)}], steps: 4, compute: 100ms, "
        f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}}}"
    )


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Aligned, misaligned, aligned."""
    with stage.phase("baseline"):
        train(stage, job_of(ALIGNED))
    with stage.phase("observe"):
        train(stage, job_of(MISALIGNED))
    for port in UPLINKS:
        show_queue(stage, port)
    stage.linger(lambda: train(stage, job_of(MISALIGNED)))
    with stage.phase("verify"):
        train(stage, job_of(ALIGNED))


def a_step_is_longer_by_the_shared_uplinks(rec: Recording, p: Params) -> Verdict:
    """A step takes as long as its bytes at half of the rate, and at most the CPU time of an aligned step more."""
    before, during = (job_in(rec, phase).step_s for phase in ACTS[:2])
    aligned, shared = (COMPUTE + allreduce_seconds(SIZE, len(HOSTS), rate) for rate in (RATE, RATE / SHARING))
    cpu = before - aligned
    evidence = (
        f"{milliseconds((before, during), ACTS[:2])}; by the arithmetic {1000 * aligned:.1f} and {1000 * shared:.1f},"
        f" and up to {1000 * cpu:.1f} of the emulated CPU"
    )
    return expect(cpu > 0 and shared < during < shared + cpu, evidence)


def the_ring_crosses_the_spine(rec: Recording, p: Params) -> Verdict:
    """Both uplinks carry the whole ring with the misaligned ranks, and no packet of it otherwise."""
    carried = [growth(rec, port, "tx_prio3_bytes") for port in UPLINKS]
    ring = growth(rec, [f"{host}:{rail}" for host in HOSTS for rail in ("eth1", "eth2")], "tx_prio3_bytes")
    evidence = "; ".join(f"{port} {listed(each)}" for port, each in zip(UPLINKS, carried, strict=True))
    before, during, after = (sum(each) for each in zip(*carried, strict=True))
    return expect(before == after == 0 and during > 0.99 * ring[1] > 0, f"bytes sent: {evidence}")


def parts_wait_at_the_uplinks(rec: Recording, p: Params) -> Verdict:
    """Two parts that come together wait at each uplink, at least half of one, and nothing waits otherwise."""
    most = {port: [rec.port(port).depth(LOSSLESS).during(phase).max for phase in ACTS] for port in UPLINKS}
    evidence = "; ".join(f"{port} {listed(each)}" for port, each in most.items())
    right = all(before == after == 0 and during > PART / 2 for before, during, after in most.values())
    return expect(right, f"most bytes in the queue: {evidence}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """With all ranks on one rail again, a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after - before) < 0.03 * before, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="rail-misaligned-placement",
    where=(*UPLINKS, "leaf1", "leaf2", "spine1"),
    level=2,
    workload="h1 to h4 run training steps of 100 ms and a ring AllReduce of 1.2 MB, one rank on each host",
    hints=(
        "a step takes more than half again as long as it should, for all ranks alike, and nothing has a fault",
        "the uplinks of both leaves: all bytes of the ring cross the spine",
        "tx_prio3_bytes of leaf1:swp1 and leaf2:swp1, and the NIC of each rank",
        "rocelab job explain, or the table job_steps of a recording: node and interface of each rank",
        "the ranks of h1 and h3 are on eth1, those of h2 and h4 on eth2, and each host has both",
    ),
    sign="ranks use NICs of different rails, and each host has a NIC on one common leaf (rocelab job explain)",
    because="Two of four ranks are on the other rail, so that all parts of the ring share the uplinks to the spine.",
    fix="Place all ranks of a ring on NICs of the same rail: rocelab job train with h1:eth1 to h4:eth1.",
    prevention="Have the scheduler number ranks by rail, and alarm on RDMA bytes of a job that cross the spine.",
)

SCENARIO = Scenario(
    "rail-misaligned-placement", "rails.yaml", Params, run,
    (a_step_is_longer_by_the_shared_uplinks, the_ring_crosses_the_spine, parts_wait_at_the_uplinks,
     nothing_is_lost("observe"), no_link_or_session_changes, the_job_recovers), answer=ANSWER,
)  # fmt: skip
