"""A link loses all packets in the middle of a step: the QPs retransmit after their timeout, and the job resumes.

Story
    Given  h1, h2 and h3 train: in each step they compute for 100 ms, and then sum their gradients in a ring
    When   h3's link loses every packet for half a second, in the middle of a step
    Then   no link goes down: all ranks wait, and the QPs to and from h3 retransmit after their timeout
    And    that step is longer by the timeout, more than the half second of the loss, and all other steps are not
    And    every sum is right: a rank neither fails nor starts again
    When   the link is repaired
    Then   nothing is retransmitted, and a step takes as long as before

        h1 --100M-- leaf1 --100M-- h2        h1 > h2 > h3 > h1
                      ~
                      ~ loses all packets for 0.5 s
                      h3

Numbers
    UCX's QPs wait 1.07 s for an ACK (4.096 us x 2^18). A hardware NIC retries seven times, SoftRoCE without end
    the QPs to and from h3 wait at the same time. The step waits once, and for what is sent again: 2 x 33 ms at most
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, listed, rdma_growth
from lab.scenario.shared_checks import no_link_or_session_changes
from lab.scenario.traffic.training import PER_BYTE, job_in, milliseconds, train
from lab.scenario.traffic.workload import show_link, show_rdma

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTS: Final = ("h1", "h2", "h3")
LINK: Final = "h3--leaf1"
END: Final = "leaf1:swp5"
OUTAGE: Final = 0.5
"""Seconds in which the link loses everything."""
TIMEOUT: Final = 4.096e-6 * 2**18
"""Seconds until a QP of UCX retransmits: UCX_RC_TIMEOUT of 1 s, rounded up (IBA 9.7.6.1.3)."""
ROUNDED: Final = 0.036
"""Seconds by which Linux may end a timer of that length later: 9 ticks of 4 ms (kernel/time/timer.c)."""
PART: Final = 400_000 * PER_BYTE * 8 / 100e6
"""Seconds of a part of the ring, 400 kB. The parts to h3 and from h3 may have to be sent again."""
WORK: Final = 0.5
"""Seconds of steps before the loss: the step of warm-up, which is not measured, takes 0.34 s."""
JOB: Final = (
    "{name: ring, hosts: [h1, h2, h3], steps: 5, compute: 100ms, "
    "allreduce: 1200000, algorithm: ring, data: {buckets: 1}}"
)
"""One bucket: the parts of the ring have 400 kB, as in ``PART``."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Whole, interrupted, whole."""

    def interrupt() -> None:
        stage.hold(WORK)
        entry = stage.inject("link-cut", LINK)
        stage.hold(OUTAGE)
        stage.heal(entry)

    def work(phase: str, during: Callable[[], None] | None = None) -> None:
        with stage.phase(phase):
            train(stage, JOB, during)

    work("baseline")
    work("observe", interrupt)
    show_link(stage, END)
    show_rdma(stage, HOSTS[-1])
    stage.linger(lambda: train(stage, JOB, interrupt))
    work("verify")


def one_step_is_longer_by_the_timeout(rec: Recording, p: Params) -> Verdict:
    """One step waits for the QPs' timeout, and each other step takes as long as before.

    The barrier before the next step counts: the link may lose its packets, too.
    """
    usual = fmean(job_in(rec, "baseline").spans_s)
    *others, longest = sorted(job_in(rec, "observe").spans_s)
    more, rest = longest - usual, max(others, default=0.0)
    evidence = (
        f"usually {1000 * usual:.0f} ms; once {1000 * more:.0f} ms longer, with a timeout of {1000 * TIMEOUT:.0f} ms;"
        f" others at most {1000 * rest:.0f} ms"
    )
    in_time = TIMEOUT - PART < more < TIMEOUT + ROUNDED + 2 * PART
    return expect(in_time and 0 < rest < 1.1 * usual, evidence)


def the_qps_retransmit(rec: Recording, p: Params) -> Verdict:
    """The hosts of the ring retransmit with the fault only."""
    sent_again = {host: rdma_growth(rec, host, "completer_retry_err") for host in HOSTS}
    evidence = "; ".join(f"{host} {listed(counts)}" for host, counts in sent_again.items())
    total = [sum(counts) for counts in zip(*sent_again.values(), strict=True)]
    return expect(total[0] == total[-1] == 0 < total[1], f"retries: {evidence}")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """After the fix, a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after - before) < 0.03 * before, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="gray-loss",
    where=("h3--leaf1", "leaf1:swp5", "h3:eth1", "h3"),
    level=2,
    workload="h1, h2 and h3 run training steps of 100 ms and a ring AllReduce of 1.2 MB",
    hints=(
        "a step takes a second longer now and then, for all ranks, and no link and no session changes",
        "the hosts: their QPs retransmit after a timeout, and receive no NAK",
        "completer_retry_err of each RDMA device, and rx_prio3_packets at both ends of each link",
        "rocelab diagnose, or rocelab counters leaf1 h1 h2 h3 --priority 3",
        "leaf1:swp5 sends packets that h3 does not count, for half a second at a time",
    ),
    sign="a link that is up delivers nothing for a while: one end sends, and the other counts no packet",
    because="h3's link loses all packets for half a second. Each time, the QPs wait for their timeout of 1.07 s.",
    fix="Replace the optic or the cable of h3's link.",
    prevention="Alarm on retransmissions after timeouts, and set UCX_RC_TIMEOUT to what a step may lose.",
)

SCENARIO = Scenario(
    "link-loss-mid-step", "incast.yaml", Params, run,
    (one_step_is_longer_by_the_timeout, the_qps_retransmit, no_link_or_session_changes, the_job_recovers),
    answer=ANSWER,
)  # fmt: skip
