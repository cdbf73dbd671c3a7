"""A victim flow: a pair that shares no bottleneck with anybody gets a sixth of a link that is half empty.

Story
    Given  h6 writes to h7 alone, and gets a whole link
    When   h2, h3, h4 and h5 write to h1, whose link is the bottleneck (Zhu et al., SIGCOMM 2015, 2.2)
    Then   leaf1 pauses the spine, the spine pauses leaf2, and leaf2 pauses h6 as it does h4 and h5
    And    h6 gets as little as they do, though its own way is clear: PFC pauses a class of a port, not a flow
    When   h6 and h7 have a lossless class of their own
    Then   h6 has all that the others leave of leaf2's uplink

        h4, h5 -- leaf2 ==== spine1 ==== leaf1 -- h1      <- the bottleneck; h2 and h3 are at leaf1
            h6 --/                +==== leaf3 -- h7      <- idle

Numbers
    leaf1 divides h1's 100 Mb/s by port: 33 to h2, to h3, and to the spine, where it is 17 each for h4 and h5
    leaf2 divides its uplink by port as well: h6 gets as much as h4 does, 17 Mb/s, and a half of the uplink stays idle
    in a class of its own h6 gets 100 - 33 = 67 Mb/s
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_queue

INCAST: Final = ("h2:h1", "h3:h1", "h4:h1", "h5:h1")
INNOCENT: Final = "h6:h7"
VICTIM: Final = "h6:eth1"
NEIGHBOURS: Final = ("h4:eth1", "h5:eth1")
UPLINK: Final = "leaf2:swp1"
OWN_WAY: Final = ("spine1:swp3", "leaf3:swp2")
"""What only h6 sends through."""
CLASS: Final = 4
DSCP: Final = 34
TCLASS: Final = DSCP << 2 | 2
"""With ECT(0)."""
JOINING: Final = 0.5
"""Seconds: five buffers on the way fill, of which each takes 14 ms or more."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alone, beside an incast, in a class of its own."""
    with stage.writing(INNOCENT):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.writing(*INCAST):
            with stage.phase("inject"):
                stage.hold(JOINING)
            with stage.phase("observe"):
                stage.hold(p.hold)
            show_queue(stage, UPLINK)
            stage.linger()
    with stage.phase("fix"):
        stage.set("spine,leaf,host", "pfc.priorities=3,4", f"map.dscp.{DSCP}={CLASS}")
    with stage.writing(INNOCENT, tclass=TCLASS), stage.writing(*INCAST):
        stage.hold(JOINING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def rate(rec: Recording, port: str, phase: str, priority: int = 3) -> float:
    """What a port sends, in Mb/s."""
    return rec.port(port).tx_bytes(priority).during(phase).rate() * 8 / 1e6


def the_victim_is_paused(rec: Recording, p: Params) -> Verdict:
    """leaf2 stops h6 in the incast and never before."""
    before, during = (rec.port(VICTIM).rx_pause(3).during(phase).delta() for phase in ("baseline", "observe"))
    return expect(before == 0 < during, f"h6 was paused {before} times alone, {during} times beside the incast")


def its_own_way_is_clear(rec: Recording, p: Params) -> Verdict:
    """Behind the link that it shares nobody pauses it, and nothing waits long enough to be marked."""
    pauses = sum(rec.port(port).rx_pause(3).during("observe").delta() for port in OWN_WAY)
    marks = sum(rec.port(port).marked(3).during("observe").delta() for port in OWN_WAY)
    return expect(
        pauses == marks == 0, f"{pauses} pauses came and {marks} packets were marked at {', '.join(OWN_WAY)}"
    )


def it_gets_what_the_guilty_get(rec: Recording, p: Params) -> Verdict:
    """leaf2 divides its uplink by port: h6, h4 and h5 have a sixth of a link each."""
    alone = rate(rec, VICTIM, "baseline")
    found = {port: rate(rec, port, "observe") for port in (VICTIM, *NEIGHBOURS)}
    told = ", ".join(f"{port} {each:.1f} Mb/s" for port, each in found.items())
    right = all(abs(each / alone - 1 / 6) < 0.03 for each in found.values())
    return expect(right, f"{told}; alone h6 had {alone:.1f}. The uplink carries {rate(rec, UPLINK, 'observe'):.1f}")


def a_class_of_its_own_frees_it(rec: Recording, p: Params) -> Verdict:
    """It gets what the incast leaves of the uplink, and is not paused for the incast's sake."""
    victim, incast = rate(rec, VICTIM, "verify", CLASS), rate(rec, UPLINK, "verify")
    alone = rate(rec, VICTIM, "baseline")
    told = f"h6 {victim:.1f} Mb/s beside {incast:.1f} of the incast; alone it had {alone:.1f}"
    return expect(abs(victim / alone - 2 / 3) < 0.02 and abs(incast / alone - 1 / 3) < 0.02, told)


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port drops anything of either class."""
    lost = sum(
        rec.port(port).drops(each).during(phase).delta()
        for port in rec.ports for each in (3, CLASS) for phase in ("observe", "verify")
    )  # fmt: skip
    return expect(lost == 0, f"{lost} packets dropped")


ANSWER: Final = StoryAnswer(
    cause="victim-flow",
    where=("leaf2", "leaf2:swp1", "h6", "h6:eth1"),
    level=2,
    workload="h6 writes to h7, and h2, h3, h4 and h5 to h1",
    hints=(
        "h6 gets a sixth of a link, though nobody else writes to h7",
        "leaf2: it pauses h6 as it does h4 and h5, whose packets wait for the same uplink",
        "rx_prio3_pause of h6:eth1; queue depth and pauses of leaf3:swp2 and spine1:swp3, which only h6 uses: none",
        "rocelab congestion",
        "h1's full link is where it begins; leaf2's uplink is paused for it, and with it what is for h7",
    ),
    sign="a full link elsewhere holds up a pair that does not use it (rocelab congestion)",
    because=(
        "PFC pauses a class of a port, not a flow: h6 shares leaf2's uplink with an incast's writers, and "
        "stops with them."
    ),
    fix="A lossless class of its own for h6 and h7, or ECN that stops the incast before PFC has to.",
    prevention=(
        "ECN thresholds well below XOFF and a congestion control that heeds them; classes for traffic "
        "that must not wait."
    ),
)

SCENARIO = Scenario(
    "victim-flow", "one-spine.yaml", Params, run,
    (the_victim_is_paused, its_own_way_is_clear, it_gets_what_the_guilty_get, a_class_of_its_own_frees_it,
     nothing_is_lost),
    answer=ANSWER,
)  # fmt: skip
