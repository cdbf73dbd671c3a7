"""ECN is missing at one leaf: the same incast marks at its sibling, and there only PFC is left to stop it.

Story
    Given  the same incast on two leaves: h1 and h2 write to h4, h5 and h6 to h8
    Then   both leaves mark what waits too long
    When   the ECN profile is not bound to leaf2's queues
    Then   leaf2 marks nothing any more, while its queue is as deep and it pauses as before
    And    leaf1 goes on marking: the difference to the sibling is the proof
    When   the profile is bound
    Then   both mark again

        h1, h2 -- leaf1 -- h4        marks
        h5, h6 -- leaf2 -- h8        does not

Numbers
    200 Mb/s are offered to each link of 100: the queue is above Kmax (160 KB) most of the time, where every packet
    that is ECN-capable is marked. DCQCN would slow its senders down; SoftRoCE does not, and a pause stops them
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.traffic.workload import show_queue

SIBLING: Final = "leaf1:swp6"
QUEUE: Final = "leaf2:swp6"
INPUTS: Final = ("leaf2:swp3", "leaf2:swp4")
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alike, different, alike."""
    with stage.writing("h1:h4", "h2:h4", "h5:h8", "h6:h8"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            unbound = stage.inject("port-config", "leaf2", set="ecn.3.enabled=false")
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, QUEUE)
        show_queue(stage, SIBLING)
        stage.linger()
        with stage.phase("fix"):
            stage.heal(unbound)
        with stage.phase("verify"):
            stage.hold(p.hold)


def one_leaf_marks_nothing(rec: Recording, p: Params) -> Verdict:
    """leaf2 marks before and after, and not meanwhile."""
    before, during, after = (rec.port(QUEUE).marked(3).during(phase).delta() for phase in PHASES)
    return expect(
        before > 0 and during == 0 and after > 0, f"leaf2 marked {before}, then {during}, then {after} packets"
    )


def its_sibling_goes_on(rec: Recording, p: Params) -> Verdict:
    """leaf1, with the same load, marks in every phase."""
    marked = [rec.port(SIBLING).marked(3).during(phase).delta() for phase in PHASES]
    return expect(min(marked) > 0, "leaf1 marked " + ", then ".join(map(str, marked)) + " packets")


def the_queue_is_as_deep(rec: Recording, p: Params) -> Verdict:
    """Nothing was marked though there was reason to: the queue is above Kmax."""
    kmax = rec.qos()["leaf1"].ports["swp6"].queues[3].ecn.kmax
    deepest = rec.port(QUEUE).depth(3).during("observe").max
    return expect(deepest > kmax, f"{deepest / 1000:.0f} KB waited at most, Kmax is {kmax / 1000:.0f} KB")


def pfc_is_left(rec: Recording, p: Params) -> Verdict:
    """leaf2 pauses its hosts, and nothing is lost."""
    paused = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(min(paused) > 0 and lost == 0, f"pauses sent {in_words(paused)}, {lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="ecn-missing-one-leaf",
    where=("leaf2", "leaf2:swp6"),
    level=1,
    workload="h1 and h2 write to h4, and h5 and h6 to h8",
    hints=(
        "flows through one leaf are never marked; both leaves have the same work",
        "leaf2, and there the queue towards h8, which is as deep as leaf1's towards h4",
        "queue3_ecn_marked of leaf2:swp6 and leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "leaf1's queue 3 has an ECN profile, leaf2's has none",
    ),
    sign="ECN is off at the queues of one leaf (rocelab qos show)",
    because=(
        "The ECN profile is not bound to leaf2's queues: nothing is marked there, and only PFC is left to "
        "stop senders."
    ),
    fix="Bind it: rocelab qos set leaf2 ecn.3.enabled=true.",
    prevention="Compare each leaf's configuration with its siblings'; alarm where a queue above Kmax marks nothing.",
)

SCENARIO = Scenario(
    "ecn-missing-one-leaf", "incast.yaml", Params, run,
    (one_leaf_marks_nothing, its_sibling_goes_on, the_queue_is_as_deep, pfc_is_left),
    answer=ANSWER,
)  # fmt: skip
