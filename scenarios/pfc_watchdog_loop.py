"""A PFC watchdog that lets go too soon: it sees the same storm again and again, and each time it gets out first.

Story
    Given  leaf1's watchdog calls a storm over 0.2 s after the last pause, leaf2's after 10 ms: it should be quick
    When   h4's NIC, at leaf1, sends a pause every 0.4 s that lasts 0.34 s: a storm with gaps
    Then   leaf1 sees it once, and drops what is for h4; h6, who writes to h3, notices nothing
    When   h8's NIC does the same at leaf2
    Then   leaf2 takes each gap for the end: storms seen and storms over climb together, and each time it pauses the
           spines first, so that h2, who writes to h7, loses some of its rate
    When   leaf2 waits as long as the others
    Then   it sees the storm once more, which goes on, and h2 has its rate

        h5 -> h4  <- pauses, leaf1 waits 0.2 s        h6 -> h3 innocent
        h1 -> h8  <- pauses, leaf2 waits 10 ms        h2 -> h7 innocent

Numbers
    a pause of 65535 quanta lasts 0.336 s at 100 Mb/s; with one each 0.4 s a port may send in 64 ms of them: 16%
    a storm is seen after 0.2 s of a pause, and called over 0.336 + 0.010 - 0.2 = 0.146 s later; once in 0.4 s at
    most, for a pause in which nobody waits is no storm, and QPs whose packets were dropped send again after 1.07 s
    the spines are held until the storm is seen: 0.2 s of 0.4, 50%, at most
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.traffic.workload import show_pauses, show_queue
from lab.units import quanta_to_seconds
from lab.wire.craft.packet_values import MAX_QUANTA

TO_HOSTS: Final = {leaf: tuple(f"{leaf}:swp{number}" for number in range(3, 7)) for leaf in ("leaf1", "leaf2")}
UPLINKS: Final = {"leaf1": ("spine1:swp1", "spine2:swp1"), "leaf2": ("spine1:swp2", "spine2:swp2")}
"""The spines' ports to each leaf."""
STUCK: Final = {"leaf1": "leaf1:swp6", "leaf2": "leaf2:swp6"}
INNOCENT: Final = {"leaf1": "leaf1:swp5", "leaf2": "leaf2:swp5"}
EVERY: Final = 0.4
"""Seconds from one pause of the NIC to the next."""
DETECTION, TOO_SOON = 0.2, 0.010
"""Seconds until a storm is seen; from the end of a pause until it is over, at leaf2."""
PAUSE: Final = quanta_to_seconds(MAX_QUANTA, 100_000_000)
TICK: Final = 0.005
"""Seconds by which a port's clock may be late."""
SEEN: Final = 0.5
"""Seconds until a storm is seen, and what it has held up is gone."""
SETTLING: Final = 3.0
"""Seconds: QPs of which packets were dropped send again after 1.07, and the storm is seen 0.6 after that at most."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""
    loops: Annotated[float, time_of(2, 60)] = 4.0
    """How long the storm is looked at that is seen again and again."""


def run(stage: Stage, p: Params) -> None:
    """A NIC that pauses where the watchdog waits, one where it does not, and one rule for both."""
    stage.set(",".join((*TO_HOSTS["leaf1"], *TO_HOSTS["leaf2"])), "pfc.watchdog.enabled=true")
    drift = stage.inject("port-config", ",".join(TO_HOSTS["leaf2"]), set=f"pfc.watchdog.restoration={TOO_SOON:g}s")
    with stage.writing("h5:h4", "h6:h3", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        pauses = stage.inject("pause-storm", "h4", every=EVERY)
        stage.hold(SEEN)
        with stage.phase("contained"):
            stage.hold(p.hold)
        stage.heal(pauses)
    with stage.writing("h1:h8", "h2:h7", qps=8):
        with stage.phase("before"):
            stage.hold(p.hold)
        stage.inject("pause-storm", "h8", every=EVERY)
        stage.hold(SEEN)
        with stage.phase("observe"):
            stage.hold(p.loops)
        show_pauses(stage, STUCK["leaf2"])
        show_queue(stage, STUCK["leaf2"])
        stage.linger()
        with stage.phase("fix"):
            stage.heal(drift)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _counted(rec: Recording, leaf: str, *phases: str) -> tuple[int, int]:
    """Storms seen and storms over, from the beginning of the first of these phases to the end of the last."""
    start, end = rec.phase(phases[0]).start, rec.phase(phases[-1]).end
    port = rec.port(STUCK[leaf])
    seen, over = (port.counter(f"queue3_{what}").between(start, end).delta() for what in ("storms", "restored"))
    return seen, over


def _pauses_go_on(rec: Recording, leaf: str, phase: str) -> bool:
    """Whether the NIC at a leaf pauses it for as much of the time as arithmetic says, within half of a pause."""
    off = paused_share(rec, phase, STUCK[leaf]) - PAUSE / EVERY
    return abs(off) * rec.phase(phase).seconds < PAUSE / 2


def a_watchdog_that_waits_contains_it(rec: Recording, p: Params) -> Verdict:
    """leaf1 sees one storm, it is not over in any gap, and the innocent pair gets what it got."""
    seen, over = _counted(rec, "leaf1", "baseline", "contained")
    before, during = (mbits(rec, INNOCENT["leaf1"], phase) for phase in ("baseline", "contained"))
    told = f"{seen} storm seen, {over} over; h3 gets {during:.1f} Mb/s, before {before:.1f}"
    there = _pauses_go_on(rec, "leaf1", "contained")
    return expect(there and (seen, over) == (1, 0) and during > 0.95 * before > 0, told)


def one_that_does_not_sees_it_again_and_again(rec: Recording, p: Params) -> Verdict:
    """At leaf2 storms seen and storms over climb together, no more often than the NIC pauses."""
    (seen, over), seconds = _counted(rec, "leaf2", "observe"), rec.phase("observe").seconds
    most = seconds / EVERY + 1
    told = f"{seen} storms seen, {over} over in {seconds:.1f} s, {most:.1f} at most"
    return expect(_pauses_go_on(rec, "leaf2", "observe") and abs(seen - over) <= 1 and 3 <= seen <= most, told)


def each_is_over_too_soon(rec: Recording, p: Params) -> Verdict:
    """A storm is called over before the NIC's next pause: what is left of a pause after it was seen, and 10 ms."""
    seen, over = (_events(rec, kind) for kind in ("storm", "restored"))
    lasted = [min(end - begin for end in over if end > begin) / 1e9 for begin in seen if begin < max(over, default=0)]
    most = PAUSE + TOO_SOON - DETECTION
    told = f"storms were over after {', '.join(f'{each:.3f}' for each in lasted)} s, {most:.3f} at most"
    return expect(len(lasted) > 1 and max(lasted) <= most + TICK, told)


def _events(rec: Recording, kind: str) -> list[int]:
    """When leaf2's port told of events of a kind while the storm was looked at, in ns of the recording."""
    node, interface = STUCK["leaf2"].split(":")
    events = rec.events(source="port", node=node, interface=interface, during="observe")
    return [event.ns for event in events if event.kind == kind]


def each_gets_out_first(rec: Recording, p: Params) -> Verdict:
    """leaf2 keeps the spines from sending until it sees the storm, each time, and the innocent pair loses rate."""
    held, well = paused_share(rec, "observe", *UPLINKS["leaf2"]), paused_share(rec, "contained", *UPLINKS["leaf1"])
    before, during = (mbits(rec, INNOCENT["leaf2"], phase) for phase in ("before", "observe"))
    told = (
        f"the spines are held for {held:.0%}, by leaf1 for {well:.0%}; h7 gets {during:.1f} Mb/s, before {before:.1f}"
    )
    return expect(2 * well < held < DETECTION / EVERY and held > 0.1 and during < 0.85 * before, told)


def waiting_longer_mends_it(rec: Recording, p: Params) -> Verdict:
    """The pauses go on, leaf2 sees at most one more storm, it is not over in any gap, and h7 gets what it got."""
    seen, over = _counted(rec, "leaf2", "fix", "verify")
    before, after = (mbits(rec, INNOCENT["leaf2"], phase) for phase in ("before", "verify"))
    told = f"{seen} storm seen, {over} over; h7 gets {after:.1f} Mb/s, before {before:.1f}"
    there = _pauses_go_on(rec, "leaf2", "verify")
    return expect(there and seen <= 1 and over == 0 and after > 0.95 * before > 0, told)


ANSWER: Final = StoryAnswer(
    cause="pfc-watchdog-loop",
    where=("leaf2:swp6", "leaf2"),
    level=3,
    workload="h1 writes to h8 and h2 to h7, with eight QPs each",
    hints=(
        "h2, which has nothing to do with h8, has lost some of its rate; h4's NIC was as bad, and nobody noticed",
        "leaf2: it sees a storm, calls it over, and sees it again",
        "queue3_storms and queue3_restored of leaf2:swp6",
        "rocelab qos show leaf2:swp6, beside leaf1:swp6; rocelab qos events",
        "leaf2's watchdog calls a storm over 10 ms after a pause ends, leaf1's after 200 ms",
    ),
    sign="storms seen and storms over climb together at one port (queue3_storms, queue3_restored)",
    because="leaf2's watchdog takes gaps between pauses for the end of the storm: it waits 10 ms, others wait 200.",
    fix="rocelab qos set leaf2 pfc.watchdog.restoration=200ms; then replace h8's NIC.",
    prevention="A time to restore that is longer than a pause lasts, and the same on all leaves; alarm on its count.",
)

SCENARIO = Scenario(
    "pfc-watchdog-loop", "incast.yaml", Params, run,
    (a_watchdog_that_waits_contains_it, one_that_does_not_sees_it_again_and_again, each_is_over_too_soon,
     each_gets_out_first, waiting_longer_mends_it),
    answer=ANSWER,
)  # fmt: skip
