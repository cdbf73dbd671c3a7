"""A slow receiver: a host accepts half of its link's rate and pauses its leaf; the network has no fault.

Story
    Given  h1 writes to h4 at the link's rate, and no port sends pauses
    When   h4's CPU, page tables or PCIe limit it to 50 Mb/s (Guo et al., SIGCOMM 2016, 4.4)
    Then   h4's NIC pauses leaf1 again and again, for a short time each, and leaf1 pauses h1
    And    the link is used half of the time, no switch is congested itself, and nothing is lost
    When   the host is repaired
    Then   it sends no pause

        h1 --100M-- leaf1 --100M-- h4: accepts 50M

Numbers
    the host accepts half of the link's rate: the link carries half, and is paused for the other half of the time
    a pause storm pauses the link all the time. The difference: here an XON ends each pause
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import growth, listed, mbits, paused_share
from lab.scenario.shared_checks import nothing_is_lost, rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_pauses, show_queue

HOST: Final = "h4:eth1"
LEAF: Final = "leaf1:swp6"
SENDER: Final = "h1:eth1"
RATE: Final = 100e6
DRAIN: Final = 50e6
SETTLING: Final = 0.5
"""Seconds: ten times as long as h4 takes to accept the packets queued in its NIC and in leaf1."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Fast, slow, fast."""

    def show() -> None:
        show_queue(stage, LEAF)
        show_pauses(stage, LEAF)

    slow = fault("slow-receiver", "h4", rate=f"{DRAIN / 1e6:.0f}Mbit")
    with stage.writing("h1:h4"):
        three_acts(stage, p.hold, slow, broken=SETTLING, healed=SETTLING, show=show)


def the_host_sends_pauses(rec: Recording, p: PhaseParameters) -> Verdict:
    """The host sends pauses with the fault only, and leaf1 pauses the sender in turn."""
    before, during, after = sent = growth(rec, HOST, "tx_prio3_pause")
    passed_on = rec.port(SENDER).rx_pause(3).during("observe").delta()
    evidence = f"pauses sent by h4: {listed(sent)}; received by h1 in observe: {passed_on}"
    return expect(before == after == 0 < min(during, passed_on), evidence)


def each_pause_ends(rec: Recording, p: PhaseParameters) -> Verdict:
    """This is no pause storm: an XON follows each XOFF, except one at the edge of the phase."""
    xoff, xon = (rec.delta(f"pg3_{what}", HOST, "observe") for what in ("xoff", "xon"))
    return expect(xoff > 1 and abs(xoff - xon) <= 1, f"{xoff} XOFF, {xon} XON")


def half_of_the_link_is_used(rec: Recording, p: PhaseParameters) -> Verdict:
    """The link carries the rate that the host accepts, and is paused for the rest of the time."""
    before, during = (mbits(rec, LEAF, phase) for phase in ("baseline", "observe"))
    paused, wanted = paused_share(rec, "observe", LEAF), DRAIN / RATE
    evidence = f"{during:.1f} of {before:.1f} Mb/s; paused {paused:.1%} of the time"
    return expect(abs(during - wanted * before) < 0.03 * before and abs(paused - (1 - wanted)) < 0.03, evidence)


ANSWER: Final = StoryAnswer(
    cause="slow-receiver",
    where=("h4", "h4:eth1", "leaf1:swp6"),
    level=1,
    workload="h1 writes to h4",
    hints=(
        "h1 gets half of its link's rate, and is paused",
        "h4: it sends the first pauses, and no switch is congested itself",
        "tx_prio3_pause of h4:eth1; pg3_xoff and pg3_xon there, which are equal",
        "rocelab congestion, and rocelab counters h4 leaf1:swp6 --priority 3",
        "h4 pauses leaf1 for a short time each: every pause ends, and the link is used half of the time",
    ),
    sign="a host pauses its leaf again and again, and each pause ends with an XON (pg3_xoff and pg3_xon of the host)",
    because="h4 accepts 50 of 100 Mb/s: its CPU, page tables or PCIe are slow, and PFC propagates that.",
    fix="Repair the host: huge pages, PCIe width and credits, CPU. The network has no fault.",
    prevention="Monitor the pauses that hosts send, and not only those of switches.",
)

SCENARIO = Scenario(
    "slow-receiver", "incast.yaml", PhaseParameters, run,
    (the_host_sends_pauses, each_pause_ends, half_of_the_link_is_used, nothing_is_lost("observe"),
     rate_recovers(LEAF)), answer=ANSWER,
)  # fmt: skip
