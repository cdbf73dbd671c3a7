"""A training job runs at 60%: one leaf's ECN thresholds are 3 KB lower, and all ranks wait for the QP that it marks.

Story
    Given  h3, h1, h7 and h5 sum gradients in a ring, and all NICs have DCQCN
    And    h1 and h5 read from h2 and h6, in single packets that keep a queue at both leaves
    Then   both leaves mark about the same share, and DCQCN slows h3 and h7 to about the same rate
    When   Kmin and Kmax of leaf2 are 3 KB lower
    Then   leaf2 marks half as many packets again, though its queue is no deeper, and h7 slows down
    And    the ring goes on only when h7's parts arrive: each step takes far longer, and nothing alarms
    When   leaf2 has the same profile as leaf1
    Then   a step takes as long as before

        h2 --+                       +-- h6        the ring h3 > h1 > h7 > h5 > h3
             leaf1 -20M- h1     leaf2 -20M- h5     reads h2 > h1 and h6 > h5
        h3 --+                       +-- h7

Numbers
    18 reads of 1000 bytes keep 18 packets of 1062 bytes, 19.1 KB. One to three packets of the ring wait with them
    the ramp is 9 KB wide and ends at 100%: 3 KB are a third of the packets, less what a shorter queue takes back. A
    slower QP has fewer packets in the queue
    a share of marks follows from the ramp and the depth that a packet finds, which is that of the queue without it
    a model of NICs and queues, packet by packet (tests/models/dcqcn/marked_ring.py), needs 0.83 and 1.38 s for a sum
    if reads follow each other at once, and 0.80 and 1.30 s if none arrives for 9 of each 100 ms: 60% of the rate. In
    the lab the queue is empty for 4 to 9% of the time: one CPU emulates all hosts, and four ranks poll on it
    a round of a ring ends when its slowest QP has sent its part, so the whole job has h7's rate
    256 ranks: each sends 2 x 255/256 of its gradients, and here 2 x 3/4. That is 1.33 times as much for the same QP
    at the same rate, before and with the fault. The ratio stays: at 60%, 256 ranks do the work of 154 while they sum
    more ranks also have more marked QPs, and each round waits for the slowest of them. That is not in this arithmetic
    the registers are those of `paper`, for a NIC of 10 Gb/s: times are 100 times as long. Alpha forgets in 16 periods
    instead of 256, which changes no mean rate: otherwise it would need seconds
    the reads keep the queue: one packet in flight each, so that CNPs do not slow them, nor would they with a real NIC
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from lab.jobs.bus_bandwidth import bus_factor
from lab.jobs.job_spec import Collective
from lab.rdma.measure import Verb
from lab.scenario.api import Parameters, Recording, RecordingPhase, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.congestion import MarkedShare, marked_share
from lab.scenario.phase_measures import ACTS, growth, listed
from lab.scenario.shared_checks import nothing_alarms
from lab.scenario.three_acts import fault, three_acts
from lab.scenario.traffic.training import job_in, milliseconds, train
from lab.scenario.traffic.workload import circulating

HOSTS: Final = ("h3", "h1", "h7", "h5")
BEHIND: Final = ("h7", "h5")
QUEUES: Final = ("leaf1:swp2", "leaf2:swp2")
"""The ports to h1 and h5."""
LOWER: Final = QUEUES[1]
RATE: Final = 20
"""Mb/s of these ports."""
KMIN: Final = 20_500
KMAX: Final = 29_500
OFF: Final = 3_000
READS: Final = 18
READ: Final = 1_000
"""Bytes of a read."""
PACKET: Final = READ + 62
"""Bytes of its answer in a queue: Ethernet, IPv4, UDP, BTH, AETH and the ICRC."""
SIZE: Final = 240_000
STEPS: Final = 5
COMPUTE: Final = 0.02
JOB: Final = (
    f"{{name: ring, hosts: [{', '.join(HOSTS)}], steps: {STEPS}, compute: {1000 * COMPUTE:.0f}ms, "
    f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}}}"
)
SCALE: Final = 100
"""Times of the NICs' registers are so many times as long, and rates as much smaller: those of a NIC of 10 Gb/s."""
SIGMAS: Final = 4
USUAL: Final = 0.8
SLOW: Final = 1.34
"""Seconds of a sum by the model, without and with the fault."""
TOLERANCE: Final = 0.1
MANY: Final = 256
"""Ranks of the job that the measured one stands for."""


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its job."""


def run(stage: Stage, p: Params) -> None:
    """Alike, different, alike."""
    stage.set("host", f"nic.cc.real_rate={SCALE * 100}Mbit", "nic.cc.dce_tcp_g=960")
    stage.set("leaf", f"ecn.3.kmin={KMIN}B", f"ecn.3.kmax={KMAX}B", "ecn.3.pmax=100%")
    stage.set(",".join(QUEUES), f"rate={RATE}Mbit")
    with circulating(stage, "h2:h1", "h6:h5", packets=READS, size=READ, verb=Verb.READ):
        stage.hold(0.5)
        lower = fault("port-config", LOWER, set=f"ecn.3.kmin={KMIN - OFF}B ecn.3.kmax={KMAX - OFF}B")
        three_acts(stage, 0.0, lower, look=lambda _: train(stage, JOB), again=lambda: train(stage, JOB))


def _marks(rec: Recording) -> list[MarkedShare]:
    """Return the marks of leaf2 in each act, from the job's first step on, with the thresholds of that act."""
    found = []
    for act, lower in zip(ACTS, (0, OFF, 0), strict=True):
        within = RecordingPhase(act, job_in(rec, act).span[0], rec.phase(act).end)
        found.append(marked_share(rec.port(LOWER), within, (KMIN - lower, KMAX - lower), PACKET))
    return found


def leaf2_marks_more_at_no_larger_depth(rec: Recording, p: Params) -> Verdict:
    """leaf2 marks a larger share than before and after, by more than chance, and its queue is no deeper."""
    before, during, after = marks = _marks(rec)
    bound = SIGMAS * sqrt(sum(each.chance**2 for each in marks))
    evidence = f"marked: {listed([f'{each.share:.1%}' for each in marks])}, by chance {bound:.1%}; "
    evidence += f"KB queued: {listed([f'{each.depth / 1000:.1f}' for each in marks])}"
    more, deeper = during.share - max(before.share, after.share), during.depth - max(before.depth, after.depth)
    return expect(more > bound > 0 and deeper < PACKET, evidence)


def the_ramp_explains_the_marks(rec: Recording, p: Params) -> Verdict:
    """In each act, leaf2's share of marks is what its thresholds and the sampled depths of its queue give."""
    marks, usual = _marks(rec), OFF / (KMAX - KMIN)
    lines = [f"{each.share:.1%} (ramp: {each.theory:.1%} +- {SIGMAS * each.deviation:.1%})" for each in marks]
    right = all(abs(each.share - each.theory) < SIGMAS * each.deviation < usual for each in marks)
    return expect(right, listed(lines))


def the_job_runs_at_60(rec: Recording, p: Params) -> Verdict:
    """In each act a sum takes as long as in the model of DCQCN: with the fault the ranks have 60% of their rate."""
    before, during, after = times = [job_in(rec, act).transfer_s for act in ACTS]
    more = bus_factor(Collective.ALLREDUCE, MANY) / bus_factor(Collective.ALLREDUCE, len(HOSTS))
    left, many = (before + after) / 2 / during, milliseconds([more * each for each in times], ACTS)
    evidence = f"{milliseconds(times, ACTS)}: {left:.0%}; {MANY} ranks: {many}, the work of {left * MANY:.0f} ranks"
    theory = zip(times, (USUAL, SLOW, USUAL), strict=True)
    return expect(all(abs(each / model - 1) < TOLERANCE for each, model in theory), evidence)


def h7_gets_more_cnps(rec: Recording, p: Params) -> Verdict:
    """For the same bytes, h7 gets more CNPs with the fault than without it, and than h3."""
    h3, h7 = (growth(rec, f"{host}:eth1", "rp_cnp_handled", ACTS) for host in ("h3", "h7"))
    most, during = max(h3[1], h7[0], h7[2]), h7[1]
    return expect(during - most > SIGMAS * sqrt(during + most) > 0, f"CNPs of h3: {listed(h3)}; h7: {listed(h7)}")


def the_ranks_at_leaf2_need_longest(rec: Recording, p: Params) -> Verdict:
    """h7 and h5, at either end of the slow QP, communicate longest, and no rank begins the sum late: no straggler."""
    job = job_in(rec, ACTS[1])
    spent = {host: job.mean_s("communication", host) for host in HOSTS}
    late = max(job.mean_s("late", host) for host in HOSTS)
    evidence = ", ".join(f"{host} {1000 * seconds:.0f} ms" for host, seconds in spent.items())
    longest = min(spent[host] for host in BEHIND) > max(spent[host] for host in HOSTS if host not in BEHIND)
    return expect(longest and late < 0.05 * job.step_s, f"communication: {evidence}; latest {1000 * late:.0f} ms")


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """With one profile again, a sum takes as long as before."""
    before, after = (job_in(rec, phase).transfer_s for phase in (ACTS[0], ACTS[-1]))
    return expect(abs(after / before - 1) < TOLERANCE, milliseconds((before, after), (ACTS[0], ACTS[-1])))


ANSWER: Final = StoryAnswer(
    cause="ecn-off-by-3kb",
    where=(LOWER, "leaf2"),
    level=2,
    workload="h3, h1, h7 and h5 sum gradients in a ring; h1 and h5 read from h2 and h6",
    hints=(
        "a job runs at 60%, for all ranks alike, and nothing is down, lost or paused",
        "the ring's QPs: one of them is slower than the others, because it gets more CNPs",
        "queue3_ecn_marked over tx_prio3_packets, of leaf1:swp2 and leaf2:swp2, and their queue3_depth",
        "rocelab qos show leaf2:swp2, and leaf1:swp2",
        "Kmin and Kmax of leaf2:swp2 are 3 KB lower than those of leaf1:swp2",
    ),
    sign="of two ports with the same load one marks more at the same depth (rocelab counters leaf1:swp2 leaf2:swp2)",
    because="Kmin and Kmax of leaf2's queue to h5 are 3 KB lower. DCQCN slows h7 for its marks, and all ranks wait.",
    fix="Use one profile everywhere: rocelab qos set leaf2:swp2 with leaf1's Kmin and Kmax.",
    prevention="Define thresholds in one place, and compare the time of a step with what its bytes need.",
)

SCENARIO = Scenario(
    "ecn-off-by-3kb-256", "dcqcn.yaml", Params, run,
    (the_job_runs_at_60, the_ramp_explains_the_marks, leaf2_marks_more_at_no_larger_depth, h7_gets_more_cnps,
     the_ranks_at_leaf2_need_longest, nothing_alarms, the_job_recovers), answer=ANSWER,
)  # fmt: skip
