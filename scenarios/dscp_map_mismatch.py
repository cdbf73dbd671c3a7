"""One spine maps DSCP 26 to another priority: PFC does not stop it, and its leaf drops RoCE.

Story
    Given  h1 and h2 write to h8 over both spines: leaf2 pauses the spines, they pause leaf1, and nothing is lost
    When   spine1 maps DSCP 26 to priority 0
    Then   spine1 counts this traffic in priority 0, and both of its neighbours count it in priority 3
    And    leaf2 pauses priority 3 of spine1, which has no effect there: spine1 goes on, and leaf2 drops
    And    spine2, with the right map, is paused as before
    When   spine1 has the same map as spine2
    Then   nothing is dropped

        h1 --+      +== spine1 ==+  <- DSCP 26 is priority 0 here
             leaf1 =+            += leaf2 -- h8
        h2 --+      +== spine2 ==+

Numbers
    200 Mb/s are offered to h8's link of 100. Traffic by spine1 is not stopped: it fills the headroom of leaf2's port,
    and then leaf2 drops. Go-back-N repeats all that followed: up to 128 messages of 64 KiB are in flight
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_queue, show_rdma

HOP: Final = "spine1:swp2"
SIBLING: Final = "spine2:swp2"
AHEAD: Final = "leaf2:swp1"
DRAINING: Final = 0.5
"""Seconds until the packets in priority 3 of spine1 have left."""
SETTLING: Final = 2.5
"""Seconds: the ACK timeout of 1.07 s, and the retransmissions after it."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """One map, two, one."""

    def show() -> None:
        show_queue(stage, HOP)
        show_queue(stage, AHEAD)
        show_rdma(stage, "h8")

    mapped = fault("port-config", "spine1", set="map.dscp.26=0")
    with stage.writing("h1:h8", "h2:h8", qps=8):
        three_acts(stage, p.hold, mapped, broken=DRAINING, healed=SETTLING, show=show)


def the_wrong_priority_grows(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault spine1 sends RoCE in priority 0 and none in 3; spine2 the other way round."""
    counts = {
        port: [rec.port(port).tx_bytes(priority).during("observe").delta() for priority in (0, 3)]
        for port in (HOP, SIBLING)
    }
    evidence = ", ".join(
        f"{port} {low / 1e6:.2f} MB in 0, {high / 1e6:.2f} MB in 3" for port, (low, high) in counts.items()
    )
    (wrong, none), (others, right) = counts.values()
    return expect(wrong > 10 * none and right > 10 * others, evidence)


def neighbours_have_the_right_priority(rec: Recording, p: PhaseParameters) -> Verdict:
    """The DSCP is unchanged: packets that spine1 sends in priority 0 arrive in priority 3 at leaf2."""
    left = rec.port(HOP).tx_packets(0).during("observe").delta()
    arrived = rec.port(AHEAD).rx_packets(3).during("observe").delta()
    return expect(arrived > 0.99 * left > 0, f"{left} packets left spine1 in 0, {arrived} arrived at leaf2 in 3")


def a_pause_stops_nothing(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 pauses priority 3 of spine1, and still has no room for the packets that follow."""
    paused = rec.port(AHEAD).tx_pause(3).during("observe").delta()
    refused = rec.delta("pg3_drop_packets", AHEAD, "observe")
    return expect(paused > 0 and refused > 0, f"{AHEAD} sent {paused} pauses, and had no room for {refused} packets")


def only_one_hop_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """Only leaf2's port from spine1 drops, and only with the fault."""
    refused = {
        phase: {port: count for port in rec.ports if (count := rec.delta("pg3_drop_packets", port, phase))}
        for phase in ACTS
    }
    return expect([*map(list, refused.values())] == [[], [AHEAD], []], f"no room for: {in_words(refused)}")


ANSWER: Final = StoryAnswer(
    cause="dscp-map-mismatch",
    where=("spine1", "spine1:swp2", "spine1:swp1"),
    level=2,
    workload="h1 and h2 write to h8 with eight QPs each",
    hints=(
        "the lossless class loses packets, and the writers retransmit",
        "leaf2 drops packets that arrive by leaf2:swp1, from spine1; nothing by leaf2:swp2, from spine2, is lost",
        "tx_prio0_bytes and tx_prio3_bytes of spine1:swp2, beside those of spine2:swp2",
        "rocelab counters spine1 spine2",
        "spine1 counts RoCE in priority 0, where a pause of priority 3 has no effect",
    ),
    sign="a switch sends RoCE in another priority than its neighbours (rocelab counters spine1 spine2)",
    because=("spine1 maps DSCP 26 to priority 0. leaf2's pauses of priority 3 do not stop it there, so leaf2 drops."),
    fix="Give spine1 the DSCP map of the other switches: rocelab qos set spine1 map.dscp.26=3.",
    prevention="Deploy one DSCP map from one template; compare tx_prioN_bytes of switches with the same role.",
)

SCENARIO = Scenario(
    "dscp-map-mismatch", "incast.yaml", PhaseParameters, run,
    (the_wrong_priority_grows, neighbours_have_the_right_priority, a_pause_stops_nothing, only_one_hop_drops),
    answer=ANSWER,
)  # fmt: skip
