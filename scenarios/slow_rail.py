"""A slow rail: one NIC of a host accepts half of its link's rate, and a collective over all rails waits for it.

Story
    Given  h1 to h4 run a ring on each of two rails: each NIC writes to the next host's NIC on the same leaf
    When   the PCIe link of h3's second NIC trains at half of its width, and the NIC accepts only 50 Mb/s
    Then   h3:eth2 pauses leaf2, and leaf2 pauses h2:eth2, which writes to it
    And    rail 1 keeps its rate, and h3:eth1, in the same host, sends no pause
    And    a step of a collective needs both rails: all four hosts have half of their bandwidth
    When   the NIC is repaired
    Then   it sends no pause, and both rails have the same rate

        rail 1  h1:eth1 > h2:eth1 > h3:eth1 > h4:eth1 > h1:eth1   by leaf1
        rail 2  h1:eth2 > h2:eth2 > h3:eth2 > h4:eth2 > h1:eth2   by leaf2
                                    accepts 50M

Numbers
    the NIC accepts half of its link's rate: the link carries half, and is paused for the other half of the time
    h3's sum over both NICs is three quarters of its rate, which does not show the slow NIC
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, listed, mbits, paused_share
from lab.scenario.shared_checks import nothing_is_lost, rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.patterns import ring
from lab.scenario.traffic.workload import show_pauses, show_queue

HOSTS: Final = ("h1", "h2", "h3", "h4")
RAILS: Final = ("eth1", "eth2")
SLOW, SIBLING = "h3:eth2", "h3:eth1"
WRITER, OTHER_RAIL = "h2:eth2", "h2:eth1"
LEAF: Final = "leaf2:swp4"
"""The port to the slow NIC."""
RATE, DRAIN = 100e6, 50e6
SETTLING: Final = 0.5
"""Seconds: ten times as long as the NIC takes to accept the packets queued in it and in leaf2."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Fast, one NIC slow, fast."""

    def show() -> None:
        show_queue(stage, LEAF)
        show_pauses(stage, LEAF)

    slow = fault("slow-receiver", SLOW, rate=f"{DRAIN / 1e6:.0f}Mbit")
    with stage.writing(*(pair for rail in RAILS for pair in ring([f"{host}:{rail}" for host in HOSTS]))):
        three_acts(stage, p.hold, slow, broken=SETTLING, healed=SETTLING, show=show)


def one_nic_sends_pauses(rec: Recording, p: PhaseParameters) -> Verdict:
    """Only the slow NIC sends pauses, and only with the fault. The other NIC of its host sends none."""
    sent = {f"{host}:{rail}": rec.port(f"{host}:{rail}").tx_pause(3) for host in HOSTS for rail in RAILS}
    pausing = [[nic for nic, pauses in sent.items() if pauses.during(act).delta()] for act in ACTS]
    return expect(pausing == [[], [SLOW], []], f"NICs that pause: {listed([', '.join(each) for each in pausing])}")


def its_rail_is_slow(rec: Recording, p: PhaseParameters) -> Verdict:
    """The slow NIC's RDMA device receives half as much as before, and that of its sibling as much as before."""
    shares = {nic: _received(rec, nic, "observe") / _received(rec, nic, "baseline") for nic in (SLOW, SIBLING)}
    evidence = ", ".join(f"{nic} {share:.0%}" for nic, share in shares.items())
    right = abs(shares[SLOW] - DRAIN / RATE) < 0.03 and shares[SIBLING] > 0.98
    return expect(right, f"received, compared with before: {evidence}")


def _received(rec: Recording, nic: str, phase: str) -> float:
    """The rate in bytes per second."""
    return rec.rdma(nic).counter("rcvd_bytes").during(phase).rate()


def the_writer_is_paused(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 passes the pauses on: the host that writes to the slow NIC sends half, on that rail only."""
    paused, other = (paused_share(rec, "observe", nic) for nic in (WRITER, OTHER_RAIL))
    before, during = (mbits(rec, WRITER, phase) for phase in ("baseline", "observe"))
    return expect(
        paused > 0.2 and other < 0.01 and during < 0.55 * before,
        f"{WRITER} paused {paused:.0%} of the time, {OTHER_RAIL} {other:.0%}; "
        f"{WRITER} sent {before:.1f} Mb/s before and {during:.1f} with the fault",
    )


ANSWER: Final = StoryAnswer(
    cause="slow-receiver",
    where=(SLOW, LEAF),
    level=2,
    workload="h1 to h4 run a ring on each rail: eth1 of each host writes to eth1 of the next, and so does eth2",
    hints=(
        "every host waits: a step of the collective takes twice as long as it should",
        "rail 2 on leaf2: on leaf1 all links are full, and no NIC sends pauses",
        "tx_prio3_pause of each NIC, for eth1 and eth2 of each host separately",
        "rocelab congestion, and rocelab counters h3 leaf2 --priority 3",
        "h3:eth2 pauses leaf2, and each pause ends; h3:eth1, in the same host, sends no pause",
    ),
    sign="one NIC of a host pauses its leaf again and again, and the host's other NICs do not",
    because="h3:eth2 accepts only 50 of 100 Mb/s: its PCIe link is half as wide as that of h3:eth1.",
    fix="Repair the NIC's PCIe link (lspci -vv: compare LnkSta with LnkCap), or remove the NIC from the job.",
    prevention="Compare the NICs of a host with each other and with their rail: sums over a host hide a slow NIC.",
)

SCENARIO = Scenario(
    "slow-rail", "rails.yaml", PhaseParameters, run,
    (one_nic_sends_pauses, its_rail_is_slow, the_writer_is_paused, nothing_is_lost("observe"),
     rate_recovers(WRITER, OTHER_RAIL)), answer=ANSWER,
)  # fmt: skip
