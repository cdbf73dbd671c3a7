"""A straggler: one host computes at half of its speed, every rank waits for it, and the network has no fault.

Story
    Given  h1, h2 and h3 train: in each step they compute for 100 ms, and then sum their gradients in a ring
    When   h3's accelerators are too hot, and compute at half of their speed
    Then   a step is 100 ms longer: h3 begins the AllReduce of each step last, and h1 and h2 wait for it
    And    once all have begun, the AllReduce takes no longer than before, and no port drops a packet
    When   h3 has been cooled
    Then   a step takes as long as before

        h1 | compute |  waits  | AllReduce |
        h2 | compute |  waits  | AllReduce |
        h3 |      computes     | AllReduce |

Numbers
    a computation of 100 ms takes 200 ms at half of the speed: 100 ms more for each step
    a busy network looks the same in the step time. The difference: here one rank never waits, and the others do
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.shared_checks import nothing_alarms
from lab.scenario.three_acts import fault, three_acts
from lab.scenario.traffic.training import job_in, milliseconds, train
from lab.scenario.traffic.workload import show_rdma

STRAGGLER: Final = "h3"
OTHERS: Final = ("h1", "h2")
COMPUTE: Final = 0.1
"""Seconds of the computation of a step."""
SPEED: Final = 0.5
JOB: Final = (
    "{name: ring, hosts: [h1, h2, h3], steps: 4, compute: 100ms, "
    "allreduce: 1200000, algorithm: ring, data: {buckets: 1}}"
)
"""One bucket, for which ``EARLY`` holds: several at a time hide CPU time behind each other's packets."""
MORE: Final = COMPUTE / SPEED - COMPUTE
ALLOWED: Final = 0.005
"""Seconds: the emulated CPU wakes ranks one after the other."""
EARLY: Final = 0.0125
"""Seconds: h1 sends its first part to h2 while both wait for h3. Half of the CPU time of an AllReduce, 25 ms."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Fast, one host slow, fast."""

    def work() -> None:
        train(stage, JOB)

    def show() -> None:
        show_rdma(stage, STRAGGLER)

    three_acts(
        stage, 0.0, fault("slow-compute", STRAGGLER, speed=f"{SPEED:.0%}"),
        look=lambda _: work(), show=show, again=work,
    )  # fmt: skip


def a_step_is_longer_by_the_computation(rec: Recording, p: Params) -> Verdict:
    """The additional time of a step is that of the slower computation, less what the others did while they waited."""
    steps = [job_in(rec, phase).step_s for phase in ACTS]
    more = steps[1] - steps[0]
    evidence = f"{milliseconds(steps, ACTS)}: {1000 * more:.1f} ms longer, {1000 * MORE:.1f} by the arithmetic"
    return expect(MORE - EARLY < more < MORE + ALLOWED, evidence)


def the_others_wait_for_it(rec: Recording, p: Params) -> Verdict:
    """h3 begins the AllReduce of every step last, and the other ranks wait for as long as it computes longer."""
    job = job_in(rec, "observe")
    waits = {host: job.mean_s("waiting", host) for host in (*OTHERS, STRAGGLER)}
    evidence = ", ".join(f"{host} {1000 * seconds:.1f} ms" for host, seconds in waits.items())
    right = all(abs(waits[host] - MORE) < ALLOWED for host in OTHERS) and waits[STRAGGLER] == 0
    last = set(job.stragglers)
    return expect(right and last == {STRAGGLER}, f"waiting: {evidence}; last of the steps: {in_words(last)}")


def the_network_is_as_fast_as_before(rec: Recording, p: Params) -> Verdict:
    """Once all ranks have begun it, the AllReduce takes no longer than without the fault."""
    before, during = (job_in(rec, phase).transfer_s for phase in ACTS[:2])
    return expect(during < 1.03 * before, f"transfer: {milliseconds((before, during), ACTS[:2])}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """After the fix, a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after - before) < ALLOWED, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="straggler-host",
    where=(STRAGGLER,),
    level=2,
    workload="h1, h2 and h3 run training steps of 100 ms and a ring AllReduce of 1.2 MB",
    hints=(
        "a step takes 100 ms longer than it should, and no link is busier than before",
        "the ranks: one of them never waits for the others",
        "waiting and late of each rank, and not the mean time of a step",
        "rocelab job train with the same file, or the table job_steps of a recording",
        "h3 computes for 200 ms and the others for 100: h3 begins every AllReduce last",
    ),
    sign="one rank begins every collective last, and computes longer than the others (rocelab job train)",
    because="h3 computes at half of its speed. The others wait for it in each AllReduce. The network has no fault.",
    fix="Repair h3's cooling or power limit, or take it out of the job.",
    prevention="Compare the computation of the ranks, not their step times, which are all that of the slowest.",
)

SCENARIO = Scenario(
    "straggler-host", "incast.yaml", Params, run,
    (a_step_is_longer_by_the_computation, the_others_wait_for_it, the_network_is_as_fast_as_before, nothing_alarms,
     the_job_recovers), answer=ANSWER,
)  # fmt: skip
