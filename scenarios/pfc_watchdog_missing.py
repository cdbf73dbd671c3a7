"""A PFC watchdog is missing: storms are contained at one leaf, and get out through its sibling.

Story
    Given  the PFC watchdog is on at every leaf's ports to hosts, but for leaf2's: its configuration has drifted
    When   h4's NIC storms, at leaf1
    Then   leaf1 sees it, drops what is for h4, and h6, who writes to h3 through the same switches, notices nothing
    When   h8's NIC storms, at leaf2
    Then   leaf2 has no watchdog that could see it, pauses the spines, and h2, who writes to h7, stands still
    When   leaf2's watchdog is turned on, while the storm goes on
    Then   leaf2 sees it, and h2 goes on

        h5 -> h4  <- storm, leaf1 with a watchdog         h6 -> h3 innocent
        h1 -> h8  <- storm, leaf2 without                 h2 -> h7 innocent

Numbers
    a watchdog sees a storm after 0.2 s; a port of a leaf fills in 17 ms, so even a storm that is seen is felt so long
    a QP whose packets were dropped or delayed retransmits after 1.07 s
    a hardware NIC gives up after seven retries; SoftRoCE treats perftest's retry count of seven as unlimited
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.traffic.workload import show_pauses, show_queue

TO_HOSTS: Final = {leaf: tuple(f"{leaf}:swp{number}" for number in range(3, 7)) for leaf in ("leaf1", "leaf2")}
UPLINKS: Final = {leaf: (f"{leaf}:swp1", f"{leaf}:swp2") for leaf in TO_HOSTS}
STUCK: Final = {"leaf1": "leaf1:swp6", "leaf2": "leaf2:swp6"}
SPINES: Final = {"leaf1": ("spine1:swp1", "spine2:swp1"), "leaf2": ("spine1:swp2", "spine2:swp2")}
"""The spines' ports to each leaf."""
INNOCENT: Final = {"leaf1": "leaf1:swp5", "leaf2": "leaf2:swp5"}
WATCHDOG: Final = "pfc.watchdog.enabled"
SEEN: Final = 0.5
"""Seconds until a storm is seen, and what it has held up is gone."""
STANDING_STILL: Final = 0.75
"""Share of a phase. A storm that gets out holds a spine all the time. Where both spines have a queue for h3, whose
link takes what one of them can send, each is held for half of the time, storm or not."""
SETTLING: Final = 2.0
"""Seconds: a storm is seen, and a QP that stood still sends again."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """A storm where there is a watchdog, one where there is none, and a watchdog for that one."""
    stage.set(",".join((*TO_HOSTS["leaf1"], *TO_HOSTS["leaf2"])), f"{WATCHDOG}=true")
    drift = stage.inject("port-config", ",".join(TO_HOSTS["leaf2"]), set=f"{WATCHDOG}=false")
    with stage.writing("h5:h4", "h6:h3", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        storm = stage.inject("pause-storm", "h4")
        stage.hold(SEEN)
        with stage.phase("contained"):
            stage.hold(p.hold)
        stage.heal(storm)
    with stage.writing("h1:h8", "h2:h7", qps=8):
        with stage.phase("before"):
            stage.hold(p.hold)
        stage.inject("pause-storm", "h8")
        stage.hold(SEEN)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_pauses(stage, STUCK["leaf2"])
        show_queue(stage, STUCK["leaf2"])
        stage.linger()
        with stage.phase("fix"):
            stage.heal(drift)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def seen(rec: Recording, leaf: str, *phases: str) -> int:
    """Storms that a leaf's watchdog has seen up to the end of the last phase, from the beginning of the first."""
    counted = rec.port(STUCK[leaf]).counter("queue3_storms")
    return counted.between(rec.phase(phases[0]).start, rec.phase(phases[-1]).end).delta()


def rate(rec: Recording, leaf: str, phase: str) -> float:
    """What the innocent receiver at a leaf gets, in Mb/s."""
    return mbits(rec, INNOCENT[leaf], phase)


def pauses(rec: Recording, leaf: str, phase: str) -> int:
    """What a leaf sends to the spines."""
    return sum(rec.port(port).tx_pause(3).during(phase).delta() for port in UPLINKS[leaf])


def held(rec: Recording, leaf: str, phase: str) -> float:
    """The share of a phase in which a leaf kept a spine from sending: of the one that it kept longest."""
    return paused_share(rec, phase, *SPINES[leaf])


def stopped(rec: Recording, leaf: str, phase: str) -> float:
    """The share of a phase in which a leaf was paused towards the NIC that storms."""
    return paused_share(rec, phase, STUCK[leaf])


def a_watchdog_contains_it(rec: Recording, p: Params) -> Verdict:
    """leaf1 sees the storm, lets the spines send, and the innocent pair gets what it got."""
    storms, kept = seen(rec, "leaf1", "baseline", "contained"), held(rec, "leaf1", "contained")
    before, during = (rate(rec, "leaf1", phase) for phase in ("baseline", "contained"))
    told = f"{storms} storm seen, the spines held for {kept:.0%}, h3 gets {during:.1f} Mb/s, before {before:.1f}"
    there = stopped(rec, "leaf1", "contained") > 0.99
    return expect(there and storms == 1 and kept < STANDING_STILL and during > 0.95 * before > 0, told)


def it_gets_out_where_there_is_none(rec: Recording, p: Params) -> Verdict:
    """leaf2 sees nothing, its pauses go to the spines, and the innocent pair stops."""
    storms, sent = seen(rec, "leaf2", "baseline", "observe"), pauses(rec, "leaf2", "observe")
    before, during = (rate(rec, "leaf2", phase) for phase in ("before", "observe"))
    kept = held(rec, "leaf2", "observe")
    told = (
        f"{storms} storms seen, {sent} pauses to the spines, which are held for {kept:.0%}, "
        f"h7 gets {during:.1f} Mb/s, before {before:.1f}"
    )
    there = stopped(rec, "leaf2", "observe") > 0.99
    return expect(there and storms == 0 < sent and kept > STANDING_STILL and during < 0.01 * before, told)


def only_the_watched_leaf_drops(rec: Recording, p: Params) -> Verdict:
    """Containing has its price: what was for h4 is dropped. Where nobody watches nothing is, and nothing alarms."""
    whole = rec.port(STUCK["leaf1"]).drops(3, "watchdog").between(
        rec.phase("baseline").start, rec.phase("contained").end
    ).delta()  # fmt: skip
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(lost == 0 < whole, f"{whole} packets dropped at leaf1, {lost} anywhere in the storm that got out")


def a_watchdog_there_mends_it(rec: Recording, p: Params) -> Verdict:
    """The storm goes on, leaf2 sees it now, lets the spines send, and h7 gets what it got."""
    storms, kept = seen(rec, "leaf2", "fix", "verify"), held(rec, "leaf2", "verify")
    before, after = (rate(rec, "leaf2", phase) for phase in ("before", "verify"))
    told = f"{storms} storm seen, the spines held for {kept:.0%}, h7 gets {after:.1f} Mb/s, before {before:.1f}"
    there = stopped(rec, "leaf2", "verify") > 0.99
    return expect(there and storms == 1 and kept < STANDING_STILL and after > 0.95 * before > 0, told)


ANSWER: Final = StoryAnswer(
    cause="pfc-watchdog-missing",
    where=("leaf2", "leaf2:swp6"),
    level=2,
    workload="h1 writes to h8 and h2 to h7, with eight QPs each",
    hints=(
        "h8's NIC storms, and the writers to leaf2's hosts stand still; h4's did so before, and nobody noticed",
        "leaf2: it lets out what leaf1 has contained",
        "queue3_storms of leaf1:swp6 and of leaf2:swp6",
        "rocelab qos show leaf1:swp6, and leaf2:swp6; rocelab qos events",
        "leaf1's ports to hosts have a PFC watchdog, and leaf2's have none",
    ),
    sign="a storm gets out at one leaf whose siblings have a watchdog (rocelab qos show)",
    because=(
        "leaf2's ports to hosts have no PFC watchdog: its configuration has drifted, and a storm there "
        "reaches the spines."
    ),
    fix=(
        "rocelab qos set leaf2:swp3 leaf2:swp4 leaf2:swp5 leaf2:swp6 pfc.watchdog.enabled=true; then replace "
        "h8's NIC."
    ),
    prevention=(
        "Compare each leaf's configuration with its siblings' every day, and let a storm drill show "
        "which leaf has none."
    ),
)

SCENARIO = Scenario(
    "pfc-watchdog-missing", "incast.yaml", Params, run,
    (a_watchdog_contains_it, it_gets_out_where_there_is_none, only_the_watched_leaf_drops, a_watchdog_there_mends_it),
    answer=ANSWER,
)  # fmt: skip
