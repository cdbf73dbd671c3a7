"""Kmin is one packet: nearly everything is marked though nothing waits, and a job would run at a crawl.

Story
    Given  two leaves with the same light work: a few packets wait, far below Kmin
    Then   neither marks anything
    When   leaf2's Kmin is one packet, and its Kmax two
    Then   leaf2 marks most of its packets, at a depth at which its siblings mark none
    When   leaf2 has the profile of its siblings again
    Then   it marks nothing

        h1, h2 -- leaf1 -25M- h4     Kmin 40 KB: no mark
        h5, h6 -- leaf2 -25M- h8     Kmin  4 KB: most of them

Numbers
    six packets of 4170 bytes circulate on each leaf: more than 25 KB never wait, where Kmin is 40
    what it would cost: DCQCN cuts a sender that has CNPs all the time by half each 50 us, down to the least rate
    that its NIC knows. SoftRoCE heeds no mark, and goes on: links are as full as before
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import circulating, show_queue

QUEUES: Final = ("leaf1:swp6", "leaf2:swp6")
PACKETS: Final = 3
"""Of each of two hosts."""
LENGTH: Final = 4170
"""Bytes of a packet, without FCS."""
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alike, different, alike."""
    stage.set(",".join(QUEUES), "rate=25Mbit")
    with circulating(stage, "h1:h4", "h2:h4", "h5:h8", "h6:h8", packets=PACKETS):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            low = stage.inject("port-config", QUEUES[1], set=f"ecn.3.kmin={LENGTH}B ecn.3.kmax={2 * LENGTH}B")
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, QUEUES[1])
        stage.linger()
        with stage.phase("fix"):
            stage.heal(low)
        with stage.phase("verify"):
            stage.hold(p.hold)


def it_marks_most(rec: Recording, p: Params) -> Verdict:
    """Meanwhile leaf2 marks more than half of what it sends; before and after nothing."""
    marked = [rec.port(QUEUES[1]).marked(3).during(phase).delta() for phase in PHASES]
    sent = rec.port(QUEUES[1]).tx_packets(3).during("observe").delta()
    told = f"leaf2 marked {marked[0]}, then {marked[1]} of {sent}, then {marked[2]} packets"
    return expect(marked[0] == marked[2] == 0 and marked[1] > sent / 2 > 0, told)


def its_sibling_marks_nothing(rec: Recording, p: Params) -> Verdict:
    """leaf1, with the same load, never reaches Kmin."""
    marked = sum(rec.port(QUEUES[0]).marked(3).during(phase).delta() for phase in PHASES)
    return expect(marked == 0, f"leaf1 marked {marked} packets")


def nothing_is_congested(rec: Recording, p: Params) -> Verdict:
    """Never more waits than circulates, which is less than the siblings' Kmin, and nobody is paused."""
    kmin = rec.qos()["leaf1"].ports["swp6"].queues[3].ecn.kmin
    deepest = [rec.port(port).depth(3).during("observe").max for port in QUEUES]
    paused = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in rec.ports)
    told = (
        f"at most {deepest[0] / 1000:.0f} and {deepest[1] / 1000:.0f} KB of {kmin / 1000:.0f} waited; {paused} pauses"
    )
    return expect(max(deepest) <= 2 * PACKETS * LENGTH < kmin and paused == 0, told)


ANSWER: Final = StoryAnswer(
    cause="ecn-too-low",
    where=("leaf2:swp6", "leaf2"),
    level=2,
    workload="h1 and h2 send to h4, and h5 and h6 to h8, with three packets under way each",
    hints=(
        "most of what h5 and h6 send is marked, though hardly anything waits",
        "leaf2, and there the queue towards h8; leaf1 has the same work and marks nothing",
        "queue3_ecn_marked and queue3_depth_bytes of leaf2:swp6, beside those of leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "Kmin is one packet at leaf2, and 40 KB at leaf1",
    ),
    sign=(
        "a queue is marked at a depth far below its siblings' Kmin, and the siblings mark nothing (rocelab counters)"
    ),
    because="Kmin of leaf2's queue to h8 is one packet: everything that waits behind another is marked.",
    fix="Give it Kmin and Kmax of its siblings: rocelab qos set leaf2:swp6 ecn.3.kmin=40KB ecn.3.kmax=160KB.",
    prevention="Refuse a Kmin below some packets; alarm on marks where a link is not full.",
)

SCENARIO = Scenario(
    "ecn-too-low",
    "incast.yaml",
    Params,
    run,
    (it_marks_most, its_sibling_marks_nothing, nothing_is_congested),
    answer=ANSWER,
)
