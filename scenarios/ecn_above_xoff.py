"""Kmin lies above XOFF: PFC stops the senders long before ECN could have told them, and nothing is marked.

Story
    Given  h1 and h2 write to h4, h5 and h6 to h8: both leaves mark what waits too long, and pause
    When   somebody types Kmin and Kmax of leaf2 above all that its hosts may have in it
    Then   leaf2 pauses as before, and marks nothing: PFC has become the congestion control
    And    leaf1 goes on marking with the same load
    When   leaf2 has Kmin < Kmax < XOFF again
    Then   it marks again

        h1, h2 -- leaf1 -- h4        Kmin  40 KB, XOFF 151 KB
        h5, h6 -- leaf2 -- h8        Kmin 500 KB, XOFF 151 KB

Numbers
    two ports share leaf2's buffer: each pauses its host at 151 KB, so that the queue towards h8 holds 302 KB, and the
    headroom of both. Kmin 500 KB is never reached
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")
KMIN: Final = 500_000
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Below, above, below."""
    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            swapped = stage.inject("port-config", QUEUE, set=f"ecn.3.kmin={KMIN}B ecn.3.kmax={2 * KMIN}B")
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)
        stage.linger()
        with stage.phase("fix"):
            stage.heal(swapped)
        with stage.phase("verify"):
            stage.hold(p.hold)


def pauses_without_marks(rec: Recording, p: Params) -> Verdict:
    """Meanwhile leaf2 pauses both hosts and marks nothing; before and after it does both."""
    marked = [rec.port(QUEUE).marked(3).during(phase).delta() for phase in PHASES]
    paused = [min(rec.port(port).tx_pause(3).during(phase).delta() for port in INPUTS) for phase in PHASES]
    told = "; ".join(
        f"{phase}: {marks} marked, {pauses} pauses or more to each"
        for phase, marks, pauses in zip(PHASES, marked, paused, strict=True)
    )
    return expect(marked[1] == 0 < min(marked[0], marked[2], *paused), told)


def its_sibling_marks(rec: Recording, p: Params) -> Verdict:
    """leaf1, with the same load, marks in every phase."""
    marked = [rec.port(SIBLING).marked(3).during(phase).delta() for phase in PHASES]
    return expect(min(marked) > 0, "leaf1 marked " + ", then ".join(map(str, marked)) + " packets")


def the_order_is_wrong(rec: Recording, p: Params) -> Verdict:
    """The queue was above what Kmin should be, and never at what it is: PFC keeps it below."""
    right = rec.qos()["leaf2"].ports["swp6"].queues[3].ecn.kmin
    deepest = rec.port(QUEUE).depth(3).during("observe").max
    return expect(
        right < deepest < KMIN,
        f"{deepest / 1000:.0f} KB waited at most; Kmin was {right // 1000}, is {KMIN // 1000} KB",
    )


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """PFC alone keeps the class lossless: no alarm comes from drops."""
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(lost == 0, f"{lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="ecn-above-xoff",
    where=("leaf2:swp6", "leaf2"),
    level=2,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "h5 and h6 are paused all along, and no packet of theirs is ever marked",
        "leaf2, and there the queue towards h8; leaf1 has the same work and marks",
        "queue3_ecn_marked and queue3_depth_bytes of leaf2:swp6, beside those of leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "ECN is on, but Kmin is above what XOFF ever lets wait",
    ),
    sign="a queue has ECN on, with a Kmin that its ports' XOFF never lets it reach (rocelab qos show)",
    because=(
        "Kmin of leaf2's queue to h8 is 500 KB; its two inputs are paused at 151 KB each, so that nothing "
        "is ever marked."
    ),
    fix="Kmin < Kmax < XOFF again: rocelab qos set leaf2:swp6 ecn.3.kmin=40KB ecn.3.kmax=160KB.",
    prevention="Check Kmin < Kmax < XOFF wherever thresholds are written; alarm on pauses without marks.",
)

SCENARIO = Scenario(
    "ecn-above-xoff", "incast.yaml", Params, run,
    (pauses_without_marks, its_sibling_marks, the_order_is_wrong, nothing_is_lost),
    answer=ANSWER,
)  # fmt: skip
