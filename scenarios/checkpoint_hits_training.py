"""A checkpoint hits the training: all hosts write to one storage host, and the AllReduce waits behind their pauses.

Story
    Given  h1, h2 and h3 train: in each step they compute for 100 ms, and then sum their gradients in a ring
    When   each of them writes a checkpoint to the storage host h4, whose link takes a third from each
    Then   leaf1 pauses h1, h2 and h3, and the pauses stop the ring as well, which does not use h4's link
    And    a step takes more than twice as long as before, no packet is lost, and nothing has a fault
    When   checkpoints have a lossless class of their own
    Then   only they are paused, and the ring has the two thirds of each link that they leave

        h1 --+          +-- h4  storage: a third of its link for each host
        h2 --- leaf1 ---+
        h3 --+          the ring h1 > h2 > h3 > h1 needs no link that is full

Numbers
    a rank of three sends 4/3 of the gradients, 1.6 MB: 0.131 s at 100 Mb/s with all headers
    in a class of their own, three checkpoints leave 100 - 100/3 = 67 Mb/s of each link: 0.196 s
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, growth, listed
from lab.scenario.shared_checks import no_link_or_session_changes, nothing_is_lost
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.training import allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

HOSTS: Final = ("h1", "h2", "h3")
STORAGE: Final = "h4"
CHECKPOINT: Final = incast(HOSTS, STORAGE)
BOTTLENECK: Final = "leaf1:swp6"
"""The port to the storage host."""
RATE: Final = 100e6
SIZE: Final = 1_200_000
COMPUTE: Final = 0.1
"""Seconds of the computation of a step."""
CLASS: Final = 4
DSCP: Final = 34
TCLASS: Final = DSCP << 2 | 2
"""With ECT(0)."""
SETTLING: Final = 0.5
"""Seconds: leaf1's buffer fills in a tenth of that."""
JOB: Final = (
    "{name: ring, hosts: [h1, h2, h3], steps: 4, compute: 100ms, "
    f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}}}"
)
"""One bucket: the parts of the ring have 400 kB."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Alone, beside the checkpoint, and beside one in a class of its own."""
    with stage.phase("baseline"):
        train(stage, JOB)
    with stage.writing(*CHECKPOINT):
        stage.hold(SETTLING)
        with stage.phase("observe"):
            train(stage, JOB)
        show_queue(stage, BOTTLENECK)
        stage.linger(lambda: train(stage, JOB))
    stage.set("spine,leaf,host", f"pfc.priorities=3,{CLASS}", f"map.dscp.{DSCP}={CLASS}")
    with stage.writing(*CHECKPOINT, tclass=TCLASS):
        stage.hold(SETTLING)
        with stage.phase("verify"):
            train(stage, JOB)


def _step(rate: float) -> float:
    """The seconds of a step whose ring has so much of each link."""
    return COMPUTE + allreduce_seconds(SIZE, len(HOSTS), rate)


def a_step_takes_more_than_twice_as_long(rec: Recording, p: Params) -> Verdict:
    """Beside the checkpoint, the ring has less than half of the links that it needs."""
    before, during = (job_in(rec, phase).step_s for phase in ACTS[:2])
    evidence = f"{milliseconds((before, during), ACTS[:2])}; at half of the rate {1000 * _step(RATE / 2):.1f}"
    return expect(during > _step(RATE / 2) and during > 2 * before > 2 * _step(RATE), evidence)


def all_hosts_are_paused(rec: Recording, p: Params) -> Verdict:
    """leaf1 pauses each host in the class of the ring beside the checkpoint, and otherwise never."""
    pauses = {host: growth(rec, f"{host}:eth1", "rx_prio3_pause") for host in HOSTS}
    evidence = "; ".join(f"{host} {listed(each)}" for host, each in pauses.items())
    right = all(before == after == 0 < during for before, during, after in pauses.values())
    return expect(right, f"pauses of priority 3: {evidence}")


def only_the_checkpoint_is_paused(rec: Recording, p: Params) -> Verdict:
    """In its own class, the checkpoint is paused instead."""
    pauses = {host: growth(rec, f"{host}:eth1", f"rx_prio{CLASS}_pause")[-1] for host in HOSTS}
    evidence = ", ".join(f"{host} {count}" for host, count in pauses.items())
    return expect(min(pauses.values()) > 0, f"pauses of priority {CLASS} in verify: {evidence}")


def the_ring_has_what_is_left(rec: Recording, p: Params) -> Verdict:
    """Beside a checkpoint in its own class, a step is as long as at two thirds of the rate, and shorter than at half.

    Between the two is CPU time: the emulated CPU also sends the checkpoint.
    """
    after = job_in(rec, ACTS[-1]).step_s
    least, most = _step(RATE * (1 - 1 / len(HOSTS))), _step(RATE / 2)
    evidence = f"{milliseconds([after], ACTS[-1:])}; {1000 * least:.1f} at two thirds, {1000 * most:.1f} at half"
    return expect(least < after < most, evidence)


ANSWER: Final = StoryAnswer(
    cause="capacity",
    where=(BOTTLENECK, "h4:eth1", "h4--leaf1", "h4"),
    level=2,
    workload="h1, h2 and h3 run training steps of 100 ms and a ring AllReduce of 1.2 MB, and write to h4",
    hints=(
        "a step takes more than twice as long as it should, for all ranks, and nothing has a fault",
        "leaf1: the queue towards one host is full, and that host has no rank",
        "queue3_depth of leaf1's ports, and rx_prio3_pause of h1, h2 and h3",
        "rocelab congestion, and rocelab qos show of leaf1: the classes that are paused",
        "leaf1:swp6 is full with writes to h4, and leaf1 pauses the class that the ring uses as well",
    ),
    sign="a queue without packets of the job is full, and its pauses stop the class of the job (rocelab congestion)",
    because="Three checkpoints exceed h4's link. PFC pauses a class of a port, and the ring is in this class.",
    fix="Give checkpoints a lossless class of their own: rocelab qos set pfc.priorities=3,4 and another DSCP.",
    prevention="Keep storage and training in different classes, and write checkpoints to several storage hosts.",
)

SCENARIO = Scenario(
    "checkpoint-hits-training", "incast.yaml", Params, run,
    (a_step_takes_more_than_twice_as_long, all_hosts_are_paused, only_the_checkpoint_is_paused,
     the_ring_has_what_is_left, nothing_is_lost("observe", "verify"), no_link_or_session_changes), answer=ANSWER,
)  # fmt: skip
