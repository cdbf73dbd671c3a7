"""One spine maps DSCP 26 elsewhere: RoCE flows, but is not lossless there, and its leaf drops what it had paused.

Story
    Given  h1 and h2 write to h8 over both spines: leaf2 pauses the spines, they pause leaf1, and nothing is lost
    When   spine1 maps DSCP 26 to priority 0
    Then   what crosses spine1 is counted in priority 0 there, and in 3 at both of its neighbours
    And    leaf2 pauses priority 3 of spine1, where nothing of that class waits: spine1 goes on, and leaf2 drops
    And    spine2, with the map of all others, is paused as before
    When   spine1 has the map of its siblings
    Then   not a packet is dropped any more

        h1 --+      +== spine1 ==+  <- 26 is 0 here
             leaf1 =+            += leaf2 -- h8
        h2 --+      +== spine2 ==+

Numbers
    200 Mb/s are offered to h8's link of 100: what comes by spine1 does not stop, fills the headroom of its port and
    then drops. Go-back-N sends again all that followed: up to 128 messages of 64 KiB are under way
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.traffic.workload import show_queue, show_rdma

HOP: Final = "spine1:swp2"
SIBLING: Final = "spine2:swp2"
AHEAD: Final = "leaf2:swp1"
DRAINING: Final = 0.5
"""Seconds in which what waits in priority 3 of spine1 leaves."""
SETTLING: Final = 2.5
"""Seconds: a QP whose last packet was lost waits for 1.07 s, and what was lost is sent again."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """One map, two, one."""
    with stage.writing("h1:h8", "h2:h8", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            mapped = stage.inject("port-config", "spine1", set="map.dscp.26=0")
            stage.hold(DRAINING)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, HOP)
        show_queue(stage, AHEAD)
        show_rdma(stage, "h8")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(mapped)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_wrong_priority_grows(rec: Recording, p: Params) -> Verdict:
    """Meanwhile spine1 sends RoCE in priority 0 and none in 3; its sibling the other way round."""
    counts = {
        port: [rec.port(port).tx_bytes(priority).during("observe").delta() for priority in (0, 3)]
        for port in (HOP, SIBLING)
    }
    told = ", ".join(
        f"{port} {low / 1e6:.2f} MB in 0, {high / 1e6:.2f} MB in 3" for port, (low, high) in counts.items()
    )
    (wrong, none), (others, right) = counts.values()
    return expect(wrong > 10 * none and right > 10 * others, told)


def its_neighbours_have_the_right_one(rec: Recording, p: Params) -> Verdict:
    """DSCP is as it was: what spine1 had in priority 0 is in 3 again at leaf2."""
    left = rec.port(HOP).tx_packets(0).during("observe").delta()
    arrived = rec.port(AHEAD).rx_packets(3).during("observe").delta()
    return expect(arrived > 0.99 * left > 0, f"{left} packets left spine1 in 0, {arrived} came to leaf2 in 3")


def a_pause_stops_nothing(rec: Recording, p: Params) -> Verdict:
    """leaf2 pauses priority 3 of spine1, and has no room for what comes all the same."""
    paused = rec.port(AHEAD).tx_pause(3).during("observe").delta()
    refused = rec.port(AHEAD).counter("pg3_drop_packets").during("observe").delta()
    return expect(paused > 0 and refused > 0, f"{AHEAD} sent {paused} pauses, and had no room for {refused} packets")


def only_one_hop_drops(rec: Recording, p: Params) -> Verdict:
    """Not before, nowhere else, and not after."""
    refused = {
        phase: {
            port: count
            for port in rec.ports
            if (count := rec.port(port).counter("pg3_drop_packets").during(phase).delta())
        }
        for phase in ("baseline", "observe", "verify")
    }
    return expect([*map(list, refused.values())] == [[], [AHEAD], []], f"no room for: {in_words(refused)}")


ANSWER: Final = StoryAnswer(
    cause="dscp-map-mismatch",
    where=("spine1", "spine1:swp2", "spine1:swp1"),
    level=2,
    workload="h1 and h2 write to h8 with eight QPs each",
    hints=(
        "the lossless class loses packets, and the writers go back and send again",
        "leaf2 drops what comes in by leaf2:swp1, from spine1; by leaf2:swp2, from spine2, nothing is lost",
        "tx_prio0_bytes and tx_prio3_bytes of spine1:swp2, beside those of spine2:swp2",
        "rocelab counters spine1 spine2",
        "spine1 counts RoCE in priority 0, where a pause of priority 3 stops nothing",
    ),
    sign="a switch sends RoCE in another priority than its neighbours (rocelab counters spine1 spine2)",
    because=(
        "spine1 maps DSCP 26 to priority 0: leaf2's pauses of priority 3 do not stop it there, and leaf2 has to drop."
    ),
    fix="Give spine1 the DSCP map of its siblings: rocelab qos set spine1 map.dscp.26=3.",
    prevention=(
        "One map for the whole fabric from one template; compare tx_prioN_bytes of siblings, which should be alike."
    ),
)

SCENARIO = Scenario(
    "dscp-map-mismatch", "incast.yaml", Params, run,
    (the_wrong_priority_grows, its_neighbours_have_the_right_one, a_pause_stops_nothing, only_one_hop_drops),
    answer=ANSWER,
)  # fmt: skip
