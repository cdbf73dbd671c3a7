"""A PFC watchdog is missing: one leaf contains a storm, and another leaf lets it spread.

Story
    Given  the PFC watchdog is on at all leaves' ports to hosts, except leaf2's: its configuration has drifted
    When   h4's NIC storms, at leaf1
    Then   leaf1 detects it and drops packets for h4, and h6, which writes to h3, keeps its rate
    When   h8's NIC storms, at leaf2
    Then   leaf2 has no watchdog, pauses the spines, and h2, which writes to h7, stops
    When   leaf2's watchdog is enabled, while the storm continues
    Then   leaf2 detects the storm, and h2 continues

        h5 -> h4  <- storm, leaf1 with a watchdog         h6 -> h3 not involved
        h1 -> h8  <- storm, leaf2 without                 h2 -> h7 not involved

Numbers
    a watchdog detects a storm after 0.2 s. A port of a leaf fills in 17 ms, so a contained storm spreads for 0.2 s
    a QP whose packets were dropped or delayed retransmits after 1.07 s
    a hardware NIC gives up after seven retries; SoftRoCE treats perftest's retry count of seven as unlimited
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import dropped
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.watchdog_drill import StormyLeaf, two_storms

WATCHED: Final = StormyLeaf(
    ("h5:h4", "h6:h3"), ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5", "leaf1:swp6"), "leaf1:swp6", "leaf1:swp5",
    ("spine1:swp1", "spine2:swp1"),
)  # fmt: skip
DRIFTED: Final = StormyLeaf(
    ("h1:h8", "h2:h7"), ("leaf2:swp3", "leaf2:swp4", "leaf2:swp5", "leaf2:swp6"), "leaf2:swp6", "leaf2:swp5",
    ("spine1:swp2", "spine2:swp2"),
)  # fmt: skip
UPLINKS: Final = ("leaf2:swp1", "leaf2:swp2")
BLOCKED: Final = 0.75
"""A share of a phase. A storm that spreads pauses a spine all the time. Without one, each spine is paused half of the
time when both have a queue for h3, whose link takes the rate of one."""
SETTLING: Final = 2.0
"""Seconds: a storm is detected, and a delayed QP retransmits."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """A storm at a leaf with a watchdog, one at a leaf without, and a watchdog for it."""
    drift = "pfc.watchdog.enabled=false"
    two_storms(stage, WATCHED, DRIFTED, drift, hold=p.hold, observed=p.hold, settling=SETTLING)


def a_watchdog_contains_the_storm(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1 detects the storm and lets the spines send, and the bystanders keep their rate."""
    return _contained(rec, WATCHED, "baseline", "baseline", "contained")


def _contained(rec: Recording, leaf: StormyLeaf, reference: str, first: str, last: str) -> Verdict:
    """Pass if one storm is detected between two phases, and the bystanders have the rate of a third one."""
    storms, spread = leaf.count(rec, "queue3_storms", first, last), leaf.spread(rec, last)
    before, during = (leaf.rate(rec, phase) for phase in (reference, last))
    evidence = f"{storms} storm detected, a spine paused for {spread:.0%}, {during:.1f} Mb/s after {before:.1f}"
    goes_on = leaf.paused(rec, last) > 0.99
    return expect(goes_on and storms == 1 and spread < BLOCKED and during > 0.95 * before > 0, evidence)


def without_a_watchdog_it_spreads(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 detects no storm, its pauses reach the spines, and the bystanders stop."""
    storms, spread = DRIFTED.count(rec, "queue3_storms", "baseline", "observe"), DRIFTED.spread(rec, "observe")
    sent = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in UPLINKS)
    before, during = (DRIFTED.rate(rec, phase) for phase in ("before", "observe"))
    evidence = (
        f"{storms} storms detected, {sent} pauses sent to spines, a spine paused for {spread:.0%}, "
        f"{during:.1f} Mb/s after {before:.1f}"
    )
    stormy = DRIFTED.paused(rec, "observe") > 0.99
    return expect(stormy and storms == 0 < sent and spread > BLOCKED and during < 0.01 * before, evidence)


def only_the_watched_leaf_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """The watchdog at leaf1 drops packets for h4. In the storm without a watchdog nothing is dropped: no alarm."""
    contained = WATCHED.count(rec, "queue3_drop_watchdog_packets", "baseline", "contained")
    lost = dropped(rec, "observe")
    return expect(lost == 0 < contained, f"{contained} packets dropped at leaf1, {lost} in the storm that spreads")


def enabling_the_watchdog_helps(rec: Recording, p: PhaseParameters) -> Verdict:
    """The storm continues, leaf2 detects it and lets the spines send, and h7 receives as before."""
    return _contained(rec, DRIFTED, "before", "fix", "verify")


ANSWER: Final = StoryAnswer(
    cause="pfc-watchdog-missing",
    where=("leaf2", "leaf2:swp6"),
    level=2,
    workload="h1 writes to h8 and h2 to h7, with eight QPs each",
    hints=(
        "h8's NIC storms, and the writers to leaf2's hosts stop; a storm of h4's NIC had no such effect",
        "leaf2: it passes on pauses that leaf1 contained",
        "queue3_storms of leaf1:swp6 and of leaf2:swp6",
        "rocelab qos show leaf1:swp6, and leaf2:swp6; rocelab qos events",
        "leaf1's ports to hosts have a PFC watchdog, and leaf2's have none",
    ),
    sign="a storm spreads from one leaf, and other leaves have a watchdog (rocelab qos show)",
    because="leaf2's ports to hosts have no PFC watchdog: its configuration has drifted, and a storm spreads.",
    fix="rocelab qos set leaf2:swp3 leaf2:swp4 leaf2:swp5 leaf2:swp6 pfc.watchdog.enabled=true; replace h8's NIC.",
    prevention="Compare the configurations of leaves daily, and run a storm drill to find one without a watchdog.",
)

SCENARIO = Scenario(
    "pfc-watchdog-missing", "incast.yaml", PhaseParameters, run,
    (a_watchdog_contains_the_storm, without_a_watchdog_it_spreads, only_the_watched_leaf_drops,
     enabling_the_watchdog_helps), answer=ANSWER,
)  # fmt: skip
