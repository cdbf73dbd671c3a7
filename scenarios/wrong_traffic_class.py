"""A wrong traffic class: a job has its DSCP in NCCL_IB_TC, so that its packets are not lossless.

Story
    Given  h1, h2 and h3 train: they compute for 200 ms, sum their gradients in a ring, and write a checkpoint to h4
    And    NCCL_IB_TC is 106, DSCP 26 with ECT(0): leaf1 pauses the three writers, and nothing is lost
    When   the job starts with NCCL_IB_TC=26, which is the DSCP
    Then   the same packets have DSCP 6, which is best effort: no host is paused, and leaf1 drops at the port to h4
    And    a step is longer by whole ACK timeouts of 1.07 s, in which the link to h4 is idle
    When   the job starts with NCCL_IB_TC=106 again
    Then   nothing is dropped, and a step takes as long as before

        h1 --+
        h2 --- leaf1 -- h4   storage, and the ring h1 > h2 > h3 > h1
        h3 --+

Numbers
    a traffic class is DSCP * 4 + ECN (RFC 2474, RFC 3168): 26 * 4 + 2 = 106. And 26 = 6 * 4 + 2 is DSCP 6
    a rank of three sends 4/3 of the gradients: 0.131 s at 100 Mb/s. Three checkpoints of 600 kB need 0.147 s of h4's
    link. A step: 0.2 + 0.131 + 0.147 = 0.478 s. The emulated CPU needs some 7% more
    without pauses, two thirds of what arrives for h4 exceed its link. A NAK reports a gap. Nothing reports that the
    last packets of a write are lost, nor that repeated packets are lost again: the sender waits for the ACK timeout,
    4.096 us * 2^18 = 1.07 s (IBA vol. 1, 9.7.6.1.3), and repeats at most all of its checkpoint
    it is UCX's default. NCCL's own is NCCL_IB_TIMEOUT=20, 4.3 s. NICs that repeat single packets lose less
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, LOSSLESS, dropped, growth, listed
from lab.scenario.shared_checks import no_link_or_session_changes
from lab.scenario.traffic.training import PER_BYTE, allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

HOSTS: Final = ("h1", "h2", "h3")
NICS: Final = tuple(f"{host}:eth1" for host in HOSTS)
STORAGE: Final = "h4"
BOTTLENECK: Final = "leaf1:swp6"
"""The port to the storage host."""
RIGHT, WRONG = 106, 26
"""Traffic classes: DSCP 26 with ECT(0), and DSCP 6."""
LOSSY: Final = 0
"""The priority of DSCP 6."""
RATE: Final = 100e6
SIZE: Final = 1_200_000
CHECKPOINT: Final = 600_000
COMPUTE: Final = 0.2
"""Seconds of the computation of a step."""
WRITING: Final = len(HOSTS) * CHECKPOINT * PER_BYTE * 8 / RATE
"""Seconds in which the link to the storage host carries the checkpoints of all ranks."""
STEP: Final = COMPUTE + allreduce_seconds(SIZE, len(HOSTS), RATE) + WRITING
TIMEOUT: Final = 4.096e-6 * 2**18
"""Seconds without an ACK until a QP repeats what it has sent."""
TOLERANCE: Final = 0.1


def job_of(tclass: int) -> str:
    """Return the job, with the traffic class in the setting of NCCL. One bucket: one sum in a step."""
    return (
        f"{{name: ring, hosts: [{', '.join(HOSTS)}], steps: 3, compute: {1000 * COMPUTE:.0f}ms, allreduce: {SIZE}, "
        f"algorithm: ring, data: {{buckets: 1}}, storage: {{host: {STORAGE}, checkpoint: {CHECKPOINT}}}, "
        f"nccl: {{NCCL_IB_TC: {tclass}}}}}"
    )


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """The right traffic class, the wrong one, and the right one again."""

    def work(tclass: int) -> None:
        train(stage, job_of(tclass), paths=True)

    with stage.phase("baseline"):
        work(RIGHT)
    with stage.phase("observe"):
        work(WRONG)
    show_queue(stage, BOTTLENECK)
    stage.linger(lambda: work(WRONG))
    with stage.phase("verify"):
        work(RIGHT)


def a_step_takes_what_its_bytes_take(rec: Recording, p: Params) -> Verdict:
    """In the lossless class, a step is as long as by the arithmetic, within 10%."""
    before = job_in(rec, ACTS[0]).step_s
    evidence = f"{milliseconds([before], ACTS[:1])}, {1000 * STEP:.1f} by the arithmetic"
    return expect(STEP < before < (1 + TOLERANCE) * STEP, evidence)


def the_job_is_in_another_class(rec: Recording, p: Params) -> Verdict:
    """With the wrong traffic class, each rank sends in the lossy priority, and otherwise in the lossless one."""
    found = {priority: growth(rec, NICS, f"tx_prio{priority}_packets") for priority in (LOSSLESS, LOSSY)}
    evidence = "; ".join(f"packets in priority {priority}: {listed(each)}" for priority, each in found.items())
    right = all(
        found[kept][act] > 10 * found[other][act]
        for act, (kept, other) in enumerate(((LOSSLESS, LOSSY), (LOSSY, LOSSLESS), (LOSSLESS, LOSSY)))
    )
    return expect(right, evidence)


def only_then_packets_are_dropped(rec: Recording, p: Params) -> Verdict:
    """The port to the storage host drops with the wrong traffic class, and hosts are paused with the right one."""
    drops = [dropped(rec, phase, priority=None) for phase in ACTS]
    pauses = growth(rec, NICS, f"rx_prio{LOSSLESS}_pause")
    evidence = f"dropped packets: {listed(drops)}; pauses of the hosts: {listed(pauses)}"
    return expect(drops[0] == drops[2] == pauses[1] == 0 < min(drops[1], pauses[0], pauses[2]), evidence)


def a_step_is_longer_by_ack_timeouts(rec: Recording, p: Params) -> Verdict:
    """Each step is longer by a whole number of ACK timeouts, within the time of all checkpoints for each of them."""
    before = job_in(rec, ACTS[0]).step_s
    longer = [seconds - before for seconds in job_in(rec, ACTS[1]).times_s]
    counts = [round(each / TIMEOUT) for each in longer]
    evidence = ", ".join(
        f"{each:.3f} s is {count} timeouts and {1000 * (each - count * TIMEOUT):.1f} ms"
        for each, count in zip(longer, counts, strict=True)
    )
    right = all(
        count > 0 and abs(each - count * TIMEOUT) < WRITING for each, count in zip(longer, counts, strict=True)
    )
    return expect(right, f"longer than in {ACTS[0]}: {evidence}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """With the right traffic class, a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in ACTS[::2])
    return expect(abs(after - before) < 0.05 * before, milliseconds((before, after), ACTS[::2]))


ANSWER: Final = StoryAnswer(
    cause="wrong-traffic-class",
    where=(*NICS, *HOSTS),
    level=2,
    workload="h1, h2 and h3 run training steps, and write checkpoints to h4; the job has the setting NCCL_IB_TC=26",
    hints=(
        "steps take seconds longer than they should, and no host is paused",
        "the hosts of the job: all of them send, and no switch has changed",
        "tx_prio0_packets and tx_prio3_packets of h1:eth1, and the drops of leaf1:swp6",
        "rocelab qos show h1: the priority of each DSCP, beside the traffic class of the job",
        "the job's traffic class is 26, which is DSCP 6 and best effort; DSCP 26 is traffic class 106",
    ),
    sign="a job's packets are in a priority without PFC (tx_prio0_packets of its hosts), and a switch drops them",
    because="NCCL_IB_TC has the DSCP, 26. As a traffic class it is DSCP 6, which no port treats as lossless.",
    fix="Set NCCL_IB_TC=106: DSCP 26 times 4, plus 2 for ECT(0).",
    prevention="Start each job with a check that its packets are counted in the lossless priority of its NIC.",
)

SCENARIO = Scenario(
    "wrong-traffic-class", "incast.yaml", Params, run,
    (a_step_takes_what_its_bytes_take, the_job_is_in_another_class, only_then_packets_are_dropped,
     a_step_is_longer_by_ack_timeouts, no_link_or_session_changes, the_job_recovers), answer=ANSWER,
)  # fmt: skip
