"""One slow link slows all ranks: a host's link came up at a quarter of its rate, and every step waits for it.

Story
    Given  h1, h2 and h3 train: in each step they compute for 100 ms, and then sum their gradients in a ring
    When   h3's link has 25 Mb/s instead of 100
    Then   a step is longer by the time that a ring's bytes take at 25 instead of 100 Mb/s
    And    h1 and h2, whose links have no fault, wait as long as h3, and no rank is a straggler
    And    leaf1 fills up towards h3 and pauses h2, and nothing is lost
    When   the link has its full rate again
    Then   a step takes as long as before

        h1 --100M-- leaf1 --100M-- h2        h1 > h2 > h3 > h1
                      |
                     25M
                      |
                      h3

Numbers
    a rank of three sends 4/3 of the gradients, 1.6 MB: 0.131 s at 100 Mb/s with all headers, and 0.522 s at 25
    a ring uses each rank's link in both directions, so that another order of the ranks changes nothing
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, growth, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import fault, three_acts
from lab.scenario.traffic.training import allreduce_seconds, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_queue

HOSTS: Final = ("h1", "h2", "h3")
SLOW: Final = "leaf1:swp5"
"""The port to h3."""
WRITER: Final = "h2:eth1"
RATE, SLOWED = 100e6, 25e6
SIZE: Final = 1_200_000
TOLERANCE: Final = 0.03
"""Of the additional time, 12 ms: the emulated CPU needs 25 ms of a step, which vary by a few."""
JOB: Final = (
    "{name: ring, hosts: [h1, h2, h3], steps: 4, compute: 100ms, "
    f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}}}"
)
"""One bucket: the parts of the ring have 400 kB, for which the tolerance was measured."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Fast, one link slow, fast."""

    def work() -> None:
        train(stage, JOB)

    def show() -> None:
        show_queue(stage, SLOW)

    three_acts(
        stage, 0.0, fault("link-rate", "h3--leaf1", rate=f"{SLOWED / 1e6:.0f}Mbit"),
        look=lambda _: work(), show=show, again=work,
    )  # fmt: skip


def a_step_is_longer_by_the_slow_link(rec: Recording, p: Params) -> Verdict:
    """The additional time of a step is that of the ring's bytes at the lower rate."""
    steps = [job_in(rec, phase).step_s for phase in ACTS]
    wanted = allreduce_seconds(SIZE, len(HOSTS), SLOWED) - allreduce_seconds(SIZE, len(HOSTS), RATE)
    more = steps[1] - steps[0]
    evidence = f"{milliseconds(steps, ACTS)}: {1000 * more:.1f} ms longer, {1000 * wanted:.1f} by the arithmetic"
    return expect(abs(more - wanted) < TOLERANCE * wanted, evidence)


def all_ranks_wait_alike(rec: Recording, p: Params) -> Verdict:
    """Each rank communicates for the same time, and begins it with the others: no rank is late."""
    job = job_in(rec, "observe")
    spent = {host: job.mean_s("communication", host) for host in HOSTS}
    late = max(job.mean_s("late", host) for host in HOSTS)
    evidence = ", ".join(f"{host} {1000 * seconds:.1f} ms" for host, seconds in spent.items())
    level = max(spent.values()) < 1.02 * min(spent.values())
    return expect(level and late < 0.02 * job.step_s, f"communication: {evidence}; latest {1000 * late:.1f} ms")


def the_leaf_pauses_the_writer(rec: Recording, p: Params) -> Verdict:
    """h2 writes to h3, and is paused with the fault only."""
    before, during, after = paused = growth(rec, WRITER, "rx_prio3_pause")
    return expect(before == after == 0 < during, f"pauses received by h2: {listed(paused)}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """After the fix, a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after - before) < 0.03 * before, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="link-rate",
    where=("h3--leaf1", "leaf1:swp5", "h3:eth1", "h3"),
    level=2,
    workload="h1, h2 and h3 run training steps of 100 ms and a ring AllReduce of 1.2 MB",
    hints=(
        "a step takes two to three times as long as it should, for all ranks alike",
        "leaf1: its queue towards one of the hosts fills, and the others are empty",
        "queue3_depth of leaf1's ports to h1, h2 and h3, and rx_prio3_pause of the hosts",
        "rocelab congestion, and rocelab qos show of leaf1's host ports: rate",
        "leaf1:swp5 and h3:eth1 have 25 Mb/s, and all other links 100",
    ),
    sign="a link has a lower rate than its siblings (rocelab qos show), and its queue fills first",
    because="h3's link came up at 25 Mb/s. In a ring, every byte of a step passes it, so that all ranks wait.",
    fix="Repair the link (cable, optic, lanes), or take h3 out of the job.",
    prevention="Compare the rates of all links before a job starts: one bandwidth test for each link of each rank.",
)

SCENARIO = Scenario(
    "one-slow-link-slows-all", "incast.yaml", Params, run,
    (a_step_is_longer_by_the_slow_link, all_ranks_wait_alike, the_leaf_pauses_the_writer,
     nothing_is_lost("observe"), the_job_recovers), answer=ANSWER,
)  # fmt: skip
