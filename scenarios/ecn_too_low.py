"""Kmin is one packet: nearly every packet is marked on an uncongested link, and a job would run far too slowly.

Story
    Given  two leaves with the same light load: a few packets are queued, far below Kmin
    Then   neither marks anything
    When   leaf2's Kmin is one packet, and its Kmax two
    Then   leaf2 marks most of its packets at a depth at which leaf1 marks none
    When   leaf2 has the same profile as leaf1
    Then   it marks nothing

        h1, h2 -- leaf1 -25M- h4     Kmin 40 KB: no mark
        h5, h6 -- leaf2 -25M- h8     Kmin  4 KB: most packets are marked

Numbers
    six packets of 4170 bytes are in flight on each leaf: never more than 25 KB are queued, and Kmin is 40 KB
    cost for a job: DCQCN halves the rate of a sender that receives CNPs all the time each 50 us, down to the minimum
    rate of its NIC. SoftRoCE ignores marks, so links are as full as before
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import growth, listed
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import circulating, show_queue

QUEUES: Final = ("leaf1:swp6", "leaf2:swp6")
PACKETS: Final = 3
"""In flight for each of two hosts."""
LENGTH: Final = 4170
"""Bytes of a packet, without FCS."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Alike, different, alike."""
    stage.set(",".join(QUEUES), "rate=25Mbit")
    low = fault("port-config", QUEUES[1], set=f"ecn.3.kmin={LENGTH}B ecn.3.kmax={2 * LENGTH}B")
    with circulating(stage, "h1:h4", "h2:h4", "h5:h8", "h6:h8", packets=PACKETS):
        three_acts(stage, p.hold, low, show=lambda: show_queue(stage, QUEUES[1]))


def most_packets_are_marked(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault leaf2 marks more than half of the packets that it sends; before and after it marks none."""
    marked = growth(rec, QUEUES[1], "queue3_ecn_marked")
    sent = rec.port(QUEUES[1]).tx_packets(3).during("observe").delta()
    evidence = f"leaf2 marked: {listed(marked)}; sent in observe: {sent}"
    return expect(marked[0] == marked[2] == 0 and marked[1] > sent / 2 > 0, evidence)


def the_other_leaf_marks_nothing(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1, with the same load, never reaches Kmin."""
    marked = growth(rec, QUEUES[0], "queue3_ecn_marked")
    return expect(not any(marked), f"leaf1 marked: {listed(marked)}")


def nothing_is_congested(rec: Recording, p: PhaseParameters) -> Verdict:
    """The queue holds at most the data in flight, which is less than leaf1's Kmin, and no port is paused."""
    kmin = rec.qos()["leaf1"].ports["swp6"].queues[3].ecn.kmin
    deepest = [rec.port(port).depth(3).during("observe").max for port in QUEUES]
    paused = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in rec.ports)
    evidence = (
        f"at most {deepest[0] / 1000:.0f} and {deepest[1] / 1000:.0f} KB queued, "
        f"Kmin is {kmin / 1000:.0f} KB; {paused} pauses"
    )
    return expect(max(deepest) <= 2 * PACKETS * LENGTH < kmin and paused == 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="ecn-too-low",
    where=("leaf2:swp6", "leaf2"),
    level=2,
    workload="h1 and h2 write to h4, and h5 and h6 to h8, with three packets in flight each",
    hints=(
        "most packets of h5 and h6 are marked, although hardly anything is queued",
        "leaf2's queue towards h8; leaf1 has the same load and marks nothing",
        "queue3_ecn_marked and queue3_depth_bytes of leaf2:swp6, beside those of leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "Kmin is one packet at leaf2, and 40 KB at leaf1",
    ),
    sign="a queue marks at a depth far below the Kmin of other leaves, which mark nothing (rocelab counters)",
    because="Kmin of leaf2's queue to h8 is one packet: every packet that queues behind another is marked.",
    fix="Set Kmin and Kmax as on other leaves: rocelab qos set leaf2:swp6 ecn.3.kmin=40KB ecn.3.kmax=160KB.",
    prevention="Reject a Kmin of less than a few packets; alarm on marks where a link is not full.",
)

SCENARIO = Scenario(
    "ecn-too-low", "incast.yaml", PhaseParameters, run,
    (most_packets_are_marked, the_other_leaf_marks_nothing, nothing_is_congested), answer=ANSWER,
)  # fmt: skip
