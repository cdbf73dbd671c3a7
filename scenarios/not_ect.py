"""Senders without ECT: the queue is above Kmin, no packet can be marked, and only PFC limits the senders.

Story
    Given  h1 and h2 write to h4, h5 and h6 to h8: both leaves mark packets when their queues are deep
    When   h5 and h6 send without ECT: their jobs run without the traffic class that sets it
    Then   leaf2 selects packets to mark and cannot mark them, while its queue is as deep as before
    And    tcpdump at h8 shows the cause: DSCP 26 as before, and ECN bits 00 (RFC 3168, section 5)
    When   they send with ECT again (--tclass 106: DSCP 26, ECT(0))
    Then   leaf2 marks again

        h1, h2 -- leaf1 -- h4        ECT(0): marks
        h5, h6 -- leaf2 -- h8        00: no marks

Numbers
    200 Mb/s are offered to each link of 100. The queue is above Kmax (160 KB) most of the time, where every
    ECN-capable packet is marked. SoftRoCE ignores marks, so the rates are equal. DCQCN would receive no signal here:
    its senders would keep their rate until leaf2 pauses them, or drops where the class is lossy
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, unknown
from lab.scenario.phase_measures import ACTS, dropped, growth, listed
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import said, show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
SENDERS: Final = ("h5", "h6")
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")
SHOWN: Final = ("tcpdump", "-i", "eth1", "-c", "20", "-n", "-v", "udp dst port 4791 and greater 1000")


def run(stage: Stage, p: PhaseParameters) -> None:
    """With ECT, without, with."""

    def look(_: str) -> None:
        stage.run("h8", *SHOWN)

    def show() -> None:
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)

    draining = p.hold / 2  # packets in NICs and queues were sent before the fault
    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        three_acts(
            stage, p.hold, *(fault("not-ect", host) for host in SENDERS), broken=draining, look=look, show=show
        )


def one_leaf_marks_nothing(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 marks before and after the fault, and not with it; leaf1, with the same load, marks always."""
    marked, others = (growth(rec, port, "queue3_ecn_marked") for port in (QUEUE, SIBLING))
    evidence = f"leaf2 marked: {listed(marked)}; leaf1: {listed(others)}"
    return expect(marked[0] > 0 == marked[1] and marked[2] > 0 and min(others) > 0, evidence)


def unmarkable_packets_are_counted(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault leaf2 selects packets that are not ECN-capable; leaf1, and leaf2 before it, select none."""
    before, during = growth(rec, QUEUE, "queue3_not_ect", ACTS[:2])
    sibling = rec.port(SIBLING).counter("queue3_not_ect").during("observe").delta()
    evidence = f"selected and not ECN-capable: {before} before, {during} with the fault, {sibling} at leaf1"
    return expect(before == sibling == 0 < during, evidence)


def packets_lack_ect(rec: Recording, p: PhaseParameters) -> Verdict:
    """Packets at h8 have DSCP 26 with ECT(0) or CE before the fault, and with 00 with it."""
    seen = {phase: said(rec, phase, "tcpdump") for phase in ACTS[:2]}
    if not all("tos 0x" in text for text in seen.values()):
        return unknown("tcpdump showed no packet")
    able, not_able = ({word.split(",")[0] for word in text.split("tos ")[1:]} for text in seen.values())
    return expect(
        able <= {"0x6a", "0x6b"} and not_able == {"0x68"},
        f"tos {in_words(sorted(able))}, then {in_words(sorted(not_able))}",
    )


def only_pfc_is_left(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 pauses its hosts, and nothing is lost."""
    paused = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    lost = dropped(rec, "observe")
    return expect(min(paused) > 0 and lost == 0, f"pauses sent {in_words(paused)}, {lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="not-ect",
    where=("h5", "h6", "h5:eth1", "h6:eth1"),
    level=2,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "h5 and h6 are paused all the time and never marked, and both leaves have the same configuration",
        "the packets of h5 and h6: leaf2 selects them for marking, and cannot mark them",
        "queue3_not_ect of leaf2:swp6, beside that of leaf1:swp6",
        "rocelab exec h8 -- tcpdump -i eth1 -c 5 -n -v udp dst port 4791",
        "tos 0x68: DSCP 26, and 00 in the ECN bits",
    ),
    sign="packets have 00 in their ECN bits, and a queue counts them (queue3_not_ect)",
    because="h5 and h6 send without ECT. Switches must not mark such packets, so only PFC stops these hosts.",
    fix="Send with ECT: traffic class 106 is DSCP 26 and ECT(0).",
    prevention="Set the traffic class per host, and not per job; alarm on queue3_not_ect in a lossless class.",
)

SCENARIO = Scenario(
    "not-ect", "incast.yaml", PhaseParameters, run,
    (one_leaf_marks_nothing, unmarkable_packets_are_counted, packets_lack_ect, only_pfc_is_left), answer=ANSWER,
)  # fmt: skip
