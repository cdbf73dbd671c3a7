"""A slow receiver: a healthy network waits for a host that takes in half of what its link brings.

Story
    Given  h1 writes to h4 as fast as the link carries, and nobody pauses anybody
    When   h4's CPU, page tables or PCIe let it take in 50 Mb/s only (Guo et al., SIGCOMM 2016, 4.4)
    Then   h4's NIC pauses leaf1, a bit at a time and for ever, and leaf1 passes it on to h1
    And    the link is used for half of the time, no switch is congested by its own doing, and nothing is lost
    When   the host is mended
    Then   not a single pause comes from it

        h1 --100M-- leaf1 --100M-- h4: takes in 50M

Numbers
    the host drains at half of the link's rate: the link carries a half, and is paused for the other half of the time
    a storm would be paused for all of it: what tells the two apart is that each pause ends with an XON
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_pauses, show_queue

HOST: Final = "h4:eth1"
LEAF: Final = "leaf1:swp6"
SENDER: Final = "h1:eth1"
RATE: Final = 100e6
DRAIN: Final = 50e6
SETTLING: Final = 0.5
"""Seconds: what waits in the NIC and in leaf1 is taken in after a tenth of that."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Fast, slow, fast."""
    with stage.writing("h1:h4"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            slow = stage.inject("slow-receiver", "h4", rate=f"{DRAIN / 1e6:.0f}Mbit")
            stage.hold(SETTLING)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, LEAF)
        show_pauses(stage, LEAF)
        stage.linger()
        with stage.phase("fix"):
            stage.heal(slow)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_host_sends_pauses(rec: Recording, p: Params) -> Verdict:
    """The pauses are a host's own, they reach the sender through leaf1, and there were none before or after."""
    sent = {phase: rec.port(HOST).tx_pause(3).during(phase).delta() for phase in ("baseline", "observe", "verify")}
    passed_on = rec.port(SENDER).rx_pause(3).during("observe").delta()
    told = ", ".join(f"{count} in {phase}" for phase, count in sent.items())
    return expect(
        sent["baseline"] == sent["verify"] == 0 < min(sent["observe"], passed_on),
        f"h4 sent {told}; h1 got {passed_on} meanwhile",
    )


def each_pause_ends(rec: Recording, p: Params) -> Verdict:
    """It is no storm: an XON follows each XOFF, but for the one that a phase may begin or end in."""
    xoff, xon = (rec.delta(f"pg3_{what}", HOST, "observe") for what in ("xoff", "xon"))
    return expect(xoff > 1 and abs(xoff - xon) <= 1, f"{xoff} XOFF, {xon} XON")


def half_of_the_link_is_used(rec: Recording, p: Params) -> Verdict:
    """It carries what the host takes in, and is paused for the rest of the time."""
    phase = rec.phase("observe")
    before, during = (rec.port(LEAF).tx_bytes(3).during(each).rate() for each in ("baseline", "observe"))
    paused = rec.port(LEAF).paused(3).during(phase).delta() / 1e6 / phase.seconds
    wanted = DRAIN / RATE
    return expect(
        abs(during / before - wanted) < 0.03 and abs(paused - (1 - wanted)) < 0.03,
        f"{during * 8 / 1e6:.1f} of {before * 8 / 1e6:.1f} Mb/s; paused {paused:.1%} of the time",
    )


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port, and not the slow NIC, drops anything."""
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(lost == 0, f"{lost} packets dropped")


def rate_recovers(rec: Recording, p: Params) -> Verdict:
    """A host that keeps up gets the whole link."""
    before, after = (rec.port(LEAF).tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "verify"))
    return expect(after > 0.98 * before, f"{before:.1f} Mb/s before, {after:.1f} Mb/s after")


ANSWER: Final = StoryAnswer(
    cause="slow-receiver",
    where=("h4", "h4:eth1", "leaf1:swp6"),
    level=1,
    workload="h1 writes to h4",
    hints=(
        "h1 gets half of its link, and is paused",
        "h4: the pauses begin there, and no switch is congested by its own doing",
        "tx_prio3_pause of h4:eth1; pg3_xoff and pg3_xon there, which are alike",
        "rocelab congestion, and rocelab counters h4 leaf1:swp6 --priority 3",
        "h4 pauses leaf1 a bit at a time: each pause ends, and the link is used for half of the time",
    ),
    sign="a host pauses its leaf again and again, and each pause ends with an XON (pg3_xoff and pg3_xon of the host)",
    because=(
        "h4 takes in 50 Mb/s of the 100 that come: its CPU, page tables or PCIe are slow, and PFC passes that on."
    ),
    fix="Mend the host: huge pages, PCIe width and credits, CPU; the network is as it should be.",
    prevention=(
        "Watch pauses that hosts send, and not only those that switches do; a host that pauses is not "
        "the network's fault."
    ),
)

SCENARIO = Scenario(
    "slow-receiver", "incast.yaml", Params, run,
    (the_host_sends_pauses, each_pause_ends, half_of_the_link_is_used, nothing_is_lost, rate_recovers),
    answer=ANSWER,
)  # fmt: skip
