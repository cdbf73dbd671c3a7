"""ECN without congestion control: a host's NIC does not answer marks, and its senders never slow down.

Story
    Given  hosts with DCQCN: h1, h2 and h3 write to h4, and slow down on its CNPs
    When   h4's NIC has no congestion control, as after a reset of its firmware
    Then   leaf1 marks most packets to h4, h4 answers none, and no sender slows down
    And    leaf1 pauses the senders all the time: nothing is lost, and its queue is deep
    When   h4 has congestion control again
    Then   it sends CNPs, and the pauses are as rare as before

        h1 --+
        h2 --+ leaf1 -- h4       data with CE marks arrive; no CNP leaves
        h3 --+

Numbers
    300 Mb/s are offered to a link of 100. PFC divides it, with a queue as deep as the ports' share of the buffer;
    DCQCN keeps the queue near Kmin, 5 KB
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.congestion import SETTLING, cnps, mean_depths, pfc_takes_over
from lab.scenario.phase_measures import ACTS, growth, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_queue

SENDERS: Final = ("h1", "h2", "h3")
RECEIVER: Final = "h4"
INPUTS: Final = ("leaf1:swp2", "leaf1:swp3", "leaf1:swp4")
QUEUE: Final = "leaf1:swp5"
DEEPER: Final = 2
"""Without it, the queue is more than twice as deep on average."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """With, without, with."""
    with stage.writing(*(f"{sender}:{RECEIVER}" for sender in SENDERS), qps=4):
        stage.hold(SETTLING)
        three_acts(
            stage, p.hold, fault("port-config", RECEIVER, set="nic.cc.algorithm=off"),
            broken=SETTLING, healed=SETTLING, show=lambda: show_queue(stage, QUEUE),
        )  # fmt: skip


def marks_are_not_answered(rec: Recording, p: PhaseParameters) -> Verdict:
    """The switch marks in every phase; the receiver sends CNPs, and none without congestion control."""
    marked, sent = growth(rec, QUEUE, "queue3_ecn_marked"), cnps(rec, "np_cnp_sent", RECEIVER)
    evidence = f"marked {listed(marked)}; CNPs sent {listed(sent)}"
    return expect(min(marked) > 0 and min(sent[0], sent[2]) > 0 == sent[1], evidence)


def the_queue_is_deep(rec: Recording, p: PhaseParameters) -> Verdict:
    """Without congestion control the queue is deeper on average than with it."""
    before, during, after = depths = mean_depths(rec, QUEUE)
    evidence = f"on average {listed([f'{depth / 1000:.1f} KB' for depth in depths])}"
    return expect(during > DEEPER * max(before, after), evidence)


ANSWER: Final = StoryAnswer(
    cause="ecn-without-cc",
    where=("h4", "h4:eth1"),
    level=2,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "leaf1 pauses h1, h2 and h3 all the time, although their NICs have DCQCN",
        "h4: packets arrive there with CE marks",
        "queue3_ecn_marked of leaf1:swp5, and np_cnp_sent of h4",
        "rocelab qos show h4, beside h1",
        "h4's NIC answers no marks: its congestion control is off",
    ),
    sign="a NIC receives marked packets and sends no CNP (np_cnp_sent)",
    because="h4's congestion control is off. Its senders get no CNPs, so that only PFC slows them down.",
    fix="Turn it on: rocelab qos set h4 nic.cc.algorithm=dcqcn.",
    prevention="Compare each NIC's np_ecn_marked_roce_packets with its np_cnp_sent; check roce_np on delivery.",
)

SCENARIO = Scenario(
    "ecn-without-cc", "dcqcn.yaml", PhaseParameters, run,
    (marks_are_not_answered, pfc_takes_over(*INPUTS), the_queue_is_deep, nothing_is_lost(*ACTS)), answer=ANSWER,
)  # fmt: skip
