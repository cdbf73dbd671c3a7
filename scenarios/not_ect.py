"""A host sends without ECT: its queue is above Kmin and nothing is marked, and only PFC is left to stop it.

Story
    Given  h1 and h2 write to h4, h5 and h6 to h8: both leaves mark what waits too long
    When   h5 and h6 lose ECT: their jobs run without the traffic class that carries it
    Then   leaf2 chooses packets to mark and cannot, though their queue is as deep as before
    And    tcpdump at h8 shows why: DSCP 26 as ever, and 00 in the two bits behind it (RFC 3168, section 5)
    When   they send with ECT again (--tclass 106: DSCP 26, ECT(0))
    Then   leaf2 marks again

        h1, h2 -- leaf1 -- h4        ECT(0): marks
        h5, h6 -- leaf2 -- h8        00: none

Numbers
    200 Mb/s are offered to each link of 100: the queue is above Kmax (160 KB) most of the time, where every packet
    that is ECN-capable is marked. SoftRoCE heeds no mark, so that rates are the same; DCQCN would be blind here, and
    its senders would go on at full rate until leaf2 pauses them, or drops where the class is lossy
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import (
    Parameters,
    Recording,
    Scenario,
    Stage,
    StoryAnswer,
    Verdict,
    expect,
    in_words,
    time_of,
    unknown,
)
from lab.scenario.traffic.workload import said, show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
SENDERS: Final = ("h5", "h6")
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")
PHASES: Final = ("baseline", "observe", "verify")
SHOWN: Final = ("tcpdump", "-i", "eth1", "-c", "20", "-n", "-v", "udp dst port 4791 and greater 1000")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """With ECT, without, with."""
    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
            stage.run("h8", *SHOWN)
        with stage.phase("inject"):
            faults = [stage.inject("not-ect", host) for host in SENDERS]
            stage.hold(p.hold / 2)  # what waits in the NICs and queues was sent before
        with stage.phase("observe"):
            stage.hold(p.hold)
            stage.run("h8", *SHOWN)
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)
        stage.linger()
        with stage.phase("fix"):
            for fault in faults:
                stage.heal(fault)
        with stage.phase("verify"):
            stage.hold(p.hold)


def one_leaf_marks_nothing(rec: Recording, p: Params) -> Verdict:
    """leaf2 marks before and after, and not meanwhile; leaf1, with the same load, all the time."""
    marked, others = (
        [rec.port(port).marked(3).during(phase).delta() for phase in PHASES] for port in (QUEUE, SIBLING)
    )
    told = f"leaf2 marked {marked[0]}, then {marked[1]}, then {marked[2]}, leaf1 {in_words(others)}"
    return expect(marked[0] > 0 == marked[1] and marked[2] > 0 and min(others) > 0, told)


def it_wanted_to(rec: Recording, p: Params) -> Verdict:
    """The curve chose packets, and they were not ECN-capable; before none was like that."""
    before, during = (rec.port(QUEUE).counter("queue3_not_ect").during(phase).delta() for phase in PHASES[:2])
    sibling = rec.port(SIBLING).counter("queue3_not_ect").during("observe").delta()
    told = f"to be marked and not ECT: {before} before, {during} meanwhile, {sibling} at leaf1"
    return expect(before == sibling == 0 < during, told)


def the_wire_shows_it(rec: Recording, p: Params) -> Verdict:
    """Packets at h8 have DSCP 26 with ECT(0) or CE before, and with 00 meanwhile."""
    seen = {phase: said(rec, phase, "tcpdump") for phase in PHASES[:2]}
    if not all("tos 0x" in text for text in seen.values()):
        return unknown("tcpdump showed no packet")
    able, not_able = ({word.split(",")[0] for word in text.split("tos ")[1:]} for text in seen.values())
    return expect(
        able <= {"0x6a", "0x6b"} and not_able == {"0x68"},
        f"tos {in_words(sorted(able))}, then {in_words(sorted(not_able))}",
    )


def only_pfc_is_left(rec: Recording, p: Params) -> Verdict:
    """leaf2 pauses its hosts, and nothing is lost."""
    paused = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(min(paused) > 0 and lost == 0, f"pauses sent {in_words(paused)}, {lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="not-ect",
    where=("h5", "h6", "h5:eth1", "h6:eth1"),
    level=2,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "h5 and h6 are paused all along and never marked, and their leaf is set like its sibling",
        "what h5 and h6 send; leaf2 would mark it, and cannot",
        "queue3_not_ect of leaf2:swp6, beside that of leaf1:swp6",
        "rocelab exec h8 -- tcpdump -i eth1 -c 5 -n -v udp dst port 4791",
        "tos 0x68: DSCP 26 as ever, and 00 in the ECN bits",
    ),
    sign="packets on the wire have 00 in their ECN bits, and a queue counts them (queue3_not_ect)",
    because="h5 and h6 send without ECT: switches may not mark such packets, so that only PFC is left to stop them.",
    fix="Send with ECT again: a traffic class of 106, which is DSCP 26 and ECT(0).",
    prevention=(
        "Set the traffic class for the host and not for each job; alarm on queue3_not_ect in a lossless class."
    ),
)

SCENARIO = Scenario(
    "not-ect",
    "incast.yaml",
    Params,
    run,
    (one_leaf_marks_nothing, it_wanted_to, the_wire_shows_it, only_pfc_is_left),
    answer=ANSWER,
)
