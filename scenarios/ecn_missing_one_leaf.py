"""ECN is off on one leaf: the other leaf marks the same incast, and here only PFC limits it.

Story
    Given  the same incast on two leaves: h1 and h2 write to h4, h5 and h6 to h8
    Then   both leaves mark packets when their queues are deep
    When   the ECN profile is removed from leaf2's queues
    Then   leaf2 marks nothing, while its queue is as deep as before and it sends pauses as before
    And    leaf1 goes on marking: the difference between the two leaves is the proof
    When   the profile is applied again
    Then   both leaves mark

        h1, h2 -- leaf1 -- h4        marks
        h5, h6 -- leaf2 -- h8        does not mark

Numbers
    200 Mb/s are offered to each link of 100. The queue is above Kmax (160 KB) most of the time, where every
    ECN-capable packet is marked. DCQCN would slow its senders down; SoftRoCE does not, and PFC stops them
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import dropped, growth, listed
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")


def run(stage: Stage, p: PhaseParameters) -> None:
    """Alike, different, alike."""

    def show() -> None:
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)

    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        three_acts(stage, p.hold, fault("port-config", "leaf2", set="ecn.3.enabled=false"), show=show)


def one_leaf_marks_nothing(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 marks before and after the fault, and not with it."""
    before, during, after = marked = growth(rec, QUEUE, "queue3_ecn_marked")
    return expect(before > 0 and during == 0 and after > 0, f"leaf2 marked: {listed(marked)}")


def the_other_leaf_marks(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1, with the same load, marks in every phase."""
    marked = growth(rec, SIBLING, "queue3_ecn_marked")
    return expect(min(marked) > 0, f"leaf1 marked: {listed(marked)}")


def the_queue_is_as_deep(rec: Recording, p: PhaseParameters) -> Verdict:
    """The queue is above Kmax, so packets should have been marked."""
    kmax = rec.qos()["leaf1"].ports["swp6"].queues[3].ecn.kmax
    deepest = rec.port(QUEUE).depth(3).during("observe").max
    return expect(deepest > kmax, f"at most {deepest / 1000:.0f} KB queued, Kmax is {kmax / 1000:.0f} KB")


def only_pfc_is_left(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 pauses its hosts, and nothing is lost."""
    paused = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    lost = dropped(rec, "observe")
    return expect(min(paused) > 0 and lost == 0, f"pauses sent {in_words(paused)}, {lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="ecn-missing-one-leaf",
    where=("leaf2", "leaf2:swp6"),
    level=1,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "flows through one leaf are never marked; both leaves have the same load",
        "leaf2's queue towards h8, which is as deep as leaf1's towards h4",
        "queue3_ecn_marked of leaf2:swp6 and leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "leaf1's queue 3 has an ECN profile, leaf2's has none",
    ),
    sign="ECN is off on the queues of one leaf (rocelab qos show)",
    because="The ECN profile is missing on leaf2's queues. Nothing is marked there, and only PFC stops senders.",
    fix="Apply it: rocelab qos set leaf2 ecn.3.enabled=true.",
    prevention="Compare each leaf's configuration with the others; alarm where a queue above Kmax marks nothing.",
)

SCENARIO = Scenario(
    "ecn-missing-one-leaf", "incast.yaml", PhaseParameters, run,
    (one_leaf_marks_nothing, the_other_leaf_marks, the_queue_is_as_deep, only_pfc_is_left), answer=ANSWER,
)  # fmt: skip
