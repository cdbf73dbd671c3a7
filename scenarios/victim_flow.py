"""A victim flow: a pair that does not use the bottleneck gets a sixth of a link that is half empty.

Story
    Given  h6 writes to h7, and gets a whole link
    When   h2, h3, h4 and h5 write to h1, whose link is the bottleneck (Zhu et al., SIGCOMM 2015, 2.2)
    Then   leaf1 pauses the spine, the spine pauses leaf2, and leaf2 pauses h6 as well as h4 and h5
    And    h6 gets as little as they do, though its own path is clear: PFC pauses a class of a port, not a flow
    When   h6 and h7 have a lossless class of their own
    Then   h6 gets the rest of leaf2's uplink

        h4, h5 -- leaf2 ==== spine1 ==== leaf1 -- h1      <- the bottleneck; h2 and h3 are at leaf1
            h6 --/                +==== leaf3 -- h7      <- idle

Numbers
    leaf1 divides h1's 100 Mb/s by port: 33 to h2, to h3, and to the spine, where it is 17 each for h4 and h5
    leaf2 divides its uplink by port as well: h6 gets as much as h4, 17 Mb/s, and a half of the uplink stays idle
    in a class of its own h6 gets 100 - 33 = 67 Mb/s
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import dropped, growth, mbits
from lab.scenario.three_acts import PhaseParameters, three_acts
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.workload import show_queue

INCAST: Final = incast(["h2", "h3", "h4", "h5"], "h1")
PAIR: Final = "h6:h7"
VICTIM: Final = "h6:eth1"
NEIGHBOURS: Final = ("h4:eth1", "h5:eth1")
UPLINK: Final = "leaf2:swp1"
OWN_PATH: Final = ("spine1:swp3", "leaf3:swp2")
"""Ports that only h6's packets use."""
CLASS: Final = 4
DSCP: Final = 34
TCLASS: Final = DSCP << 2 | 2
"""With ECT(0)."""
JOINING: Final = 0.5
"""Seconds: five buffers on the path fill, each in 14 ms or more."""


class Params(PhaseParameters):
    """Longer phases, for exact shares."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alone, beside an incast, in a class of its own."""
    with ExitStack() as writers:

        def join() -> None:
            writers.enter_context(stage.writing(*INCAST))
            stage.hold(JOINING)

        def separate() -> None:
            writers.close()
            stage.set("spine,leaf,host", "pfc.priorities=3,4", f"map.dscp.{DSCP}={CLASS}")
            writers.enter_context(stage.writing(PAIR, tclass=TCLASS))
            join()

        writers.enter_context(stage.writing(PAIR))
        three_acts(stage, p.hold, broken=join, fix=separate, show=lambda: show_queue(stage, UPLINK))


def the_victim_is_paused(rec: Recording, p: Params) -> Verdict:
    """leaf2 pauses h6 during the incast, and not before."""
    before, during, _ = growth(rec, VICTIM, "rx_prio3_pause")
    return expect(before == 0 < during, f"h6 was paused {before} times alone, {during} times beside the incast")


def its_own_path_is_clear(rec: Recording, p: Params) -> Verdict:
    """Behind the shared uplink no port is paused, and no packet waits long enough to be marked."""
    pauses, marks = (growth(rec, OWN_PATH, each, ["observe"])[0] for each in ("rx_prio3_pause", "queue3_ecn_marked"))
    return expect(pauses == marks == 0, f"{pauses} pauses and {marks} marked packets at {', '.join(OWN_PATH)}")


def it_gets_an_equal_share(rec: Recording, p: Params) -> Verdict:
    """leaf2 divides its uplink by port: h6, h4 and h5 get a sixth of a link each."""
    alone = mbits(rec, VICTIM, "baseline")
    found = {port: mbits(rec, port, "observe") for port in (VICTIM, *NEIGHBOURS)}
    evidence = ", ".join(f"{port} {each:.1f} Mb/s" for port, each in found.items())
    right = all(abs(each / alone - 1 / 6) < 0.03 for each in found.values())
    return expect(right, f"{evidence}; h6 alone {alone:.1f}. The uplink carries {mbits(rec, UPLINK, 'observe'):.1f}")


def a_separate_class_helps(rec: Recording, p: Params) -> Verdict:
    """In its own class h6 gets what the incast leaves of the uplink."""
    alone, shared = mbits(rec, VICTIM, "baseline"), mbits(rec, UPLINK, "verify")
    victim = mbits(rec, VICTIM, "verify", CLASS)
    evidence = f"h6 {victim:.1f} Mb/s beside {shared:.1f} of the incast; {alone:.1f} alone"
    return expect(abs(victim / alone - 2 / 3) < 0.02 and abs(shared / alone - 1 / 3) < 0.02, evidence)


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port drops a packet of either lossless class."""
    lost = sum(dropped(rec, "observe", "verify", priority=each) for each in (3, CLASS))
    return expect(lost == 0, f"{lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="victim-flow",
    where=("leaf2", "leaf2:swp1", "h6", "h6:eth1"),
    level=2,
    workload="h6 writes to h7, and h2, h3, h4 and h5 to h1",
    hints=(
        "h6 gets a sixth of a link, though h7 has no other writer",
        "leaf2: it pauses h6 as well as h4 and h5, whose packets wait for the same uplink",
        "rx_prio3_pause of h6:eth1; no queue and no pause at leaf3:swp2 and spine1:swp3, which only h6 uses",
        "rocelab congestion",
        "the pauses begin at h1's full link; they reach leaf2's uplink, which also carries packets for h7",
    ),
    sign="a full link elsewhere slows down a pair that does not use it (rocelab congestion)",
    because="PFC pauses a class of a port, not a flow. h6 shares leaf2's uplink with an incast's writers.",
    fix="Give h6 and h7 a lossless class of their own, or use ECN that slows down the incast before PFC acts.",
    prevention="Set ECN thresholds well below XOFF, use congestion control, and separate classes for urgent traffic.",
)

SCENARIO = Scenario(
    "victim-flow", "one-spine.yaml", Params, run,
    (the_victim_is_paused, its_own_path_is_clear, it_gets_an_equal_share, a_separate_class_helps, nothing_is_lost),
    answer=ANSWER,
)  # fmt: skip
