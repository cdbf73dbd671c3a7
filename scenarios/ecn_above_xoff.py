"""Kmin is above XOFF: PFC pauses the senders, and ECN never marks a packet.

Story
    Given  h1 and h2 write to h4, and h5 and h6 to h8: both leaves mark ECN and send pauses
    When   Kmin and Kmax of leaf2 are set above the most that its hosts may have queued there
    Then   leaf2 pauses as before and marks nothing: PFC is the only congestion control left
    And    leaf1 goes on marking with the same load
    When   leaf2 has Kmin < Kmax < XOFF again
    Then   it marks again

        h1, h2 -- leaf1 -- h4        Kmin  40 KB, XOFF 151 KB
        h5, h6 -- leaf2 -- h8        Kmin 500 KB, XOFF 151 KB

Numbers
    two ports share leaf2's buffer. Each pauses its host at 151 KB, so the queue towards h8 holds at most 302 KB and
    the headroom of both ports. It never reaches a Kmin of 500 KB
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import growth, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")
KMIN: Final = 500_000


def run(stage: Stage, p: PhaseParameters) -> None:
    """Below, above, below."""

    def show() -> None:
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)

    high = fault("port-config", QUEUE, set=f"ecn.3.kmin={KMIN}B ecn.3.kmax={2 * KMIN}B")
    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        three_acts(stage, p.hold, high, show=show)


def pauses_without_marks(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault leaf2 pauses both hosts and marks nothing; before and after it does both."""
    marked = growth(rec, QUEUE, "queue3_ecn_marked")
    paused = [min(each) for each in zip(*(growth(rec, port, "tx_prio3_pause") for port in INPUTS), strict=True)]
    evidence = f"marked: {listed(marked)}; pauses sent to each host, at least: {listed(paused)}"
    return expect(marked[1] == 0 < min(marked[0], marked[2], *paused), evidence)


def the_other_leaf_marks(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1, with the same load, marks in every phase."""
    marked = growth(rec, SIBLING, "queue3_ecn_marked")
    return expect(min(marked) > 0, f"leaf1 marked: {listed(marked)}")


def kmin_is_out_of_reach(rec: Recording, p: PhaseParameters) -> Verdict:
    """The queue exceeds the right Kmin and never the configured one: PFC keeps it below."""
    right = rec.qos()["leaf2"].ports["swp6"].queues[3].ecn.kmin
    deepest = rec.port(QUEUE).depth(3).during("observe").max
    return expect(
        right < deepest < KMIN,
        f"at most {deepest / 1000:.0f} KB queued; Kmin was {right // 1000} KB, is {KMIN // 1000} KB",
    )


ANSWER: Final = StoryAnswer(
    cause="ecn-above-xoff",
    where=("leaf2:swp6", "leaf2"),
    level=2,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "h5 and h6 are paused all the time, and none of their packets is marked",
        "leaf2's queue towards h8; leaf1 has the same load and marks",
        "queue3_ecn_marked and queue3_depth_bytes of leaf2:swp6, beside those of leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "ECN is on, but XOFF keeps the queue below Kmin",
    ),
    sign="a queue has ECN on, with a Kmin that XOFF of its input ports keeps it from reaching (rocelab qos show)",
    because="Kmin of leaf2's queue to h8 is 500 KB. Its two input ports pause at 151 KB each, so nothing is marked.",
    fix="Set Kmin < Kmax < XOFF: rocelab qos set leaf2:swp6 ecn.3.kmin=40KB ecn.3.kmax=160KB.",
    prevention="Check Kmin < Kmax < XOFF wherever thresholds are set; alarm on pauses without marks.",
)

SCENARIO = Scenario(
    "ecn-above-xoff", "incast.yaml", PhaseParameters, run,
    (pauses_without_marks, the_other_leaf_marks, kmin_is_out_of_reach, nothing_is_lost("observe")), answer=ANSWER,
)  # fmt: skip
