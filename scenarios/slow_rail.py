"""A slow rail: one NIC of one host takes in half of what its link brings, and a collective over all rails waits.

Story
    Given  h1 to h4 run a ring on each of two rails: each NIC writes to that of the next host, on its own leaf
    When   the PCIe link of h3's second NIC trains at half of its width, and the NIC takes in 50 Mb/s only
    Then   h3:eth2 pauses leaf2, and leaf2 passes that on to h2:eth2, which writes to it: rail 2 has a slow link
    And    rail 1, which is another leaf, keeps its rate: h3:eth1 is in the same host and pauses nobody
    And    a step of a collective is over when both rails are: all four hosts get half of their bandwidth
    When   the NIC is mended
    Then   no pause comes from it, and both rails have the same rate

        rail 1  h1:eth1 > h2:eth1 > h3:eth1 > h4:eth1 > h1:eth1   by leaf1
        rail 2  h1:eth2 > h2:eth2 > h3:eth2 > h4:eth2 > h1:eth2   by leaf2
                                    takes in 50M

Numbers
    the NIC drains at half of its link's rate: the link to it carries a half, and is paused for half of the time
    what the host counts over all of its NICs, three quarters of its rate, hides which one it is
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.traffic.patterns import ring
from lab.scenario.traffic.workload import show_pauses, show_queue

HOSTS: Final = ("h1", "h2", "h3", "h4")
RAILS: Final = ("eth1", "eth2")
SLOW: Final = "h3:eth2"
SIBLING: Final = "h3:eth1"
WRITER: Final = "h2:eth2"
BESIDE: Final = "h2:eth1"
LEAF: Final = "leaf2:swp4"
"""The port to the slow NIC."""
RATE: Final = 100e6
DRAIN: Final = 50e6
PHASES: Final = ("baseline", "observe", "verify")
SETTLING: Final = 0.5
"""Seconds: what waits in the NIC and in leaf2 is taken in after a tenth of that."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Fast, one NIC slow, fast."""
    pairs = [pair for rail in RAILS for pair in ring([f"{host}:{rail}" for host in HOSTS])]
    with stage.writing(*pairs):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            slow = stage.inject("slow-receiver", SLOW, rate=f"{DRAIN / 1e6:.0f}Mbit")
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


def one_nic_pauses_and_its_sibling_does_not(rec: Recording, p: Params) -> Verdict:
    """Of all NICs one sends pauses, and only while it is slow; the other NIC of its host sends none."""
    sent = {f"{host}:{rail}": rec.port(f"{host}:{rail}").tx_pause(3) for host in HOSTS for rail in RAILS}
    pausing = {phase: [nic for nic, pauses in sent.items() if pauses.during(phase).delta()] for phase in PHASES}
    told = "; ".join(f"{in_words(nics) if nics else 'none'} in {phase}" for phase, nics in pausing.items())
    return expect(pausing == {"baseline": [], "observe": [SLOW], "verify": []}, f"NICs that pause: {told}")


def its_rail_is_slow_and_the_other_is_not(rec: Recording, p: Params) -> Verdict:
    """The RDMA devices of the host say the same: one takes in half, and the other as much as before."""
    shares = {nic: _taken_in(rec, nic, "observe") / _taken_in(rec, nic, "baseline") for nic in (SLOW, SIBLING)}
    told = ", ".join(f"{nic} {share:.0%}" for nic, share in shares.items())
    return expect(
        abs(shares[SLOW] - DRAIN / RATE) < 0.03 and shares[SIBLING] > 0.98, f"taken in, of what it was before: {told}"
    )


def _taken_in(rec: Recording, nic: str, phase: str) -> float:
    """Bytes a second."""
    return rec.rdma(nic).counter("rcvd_bytes").during(phase).rate()


def the_writer_before_it_is_held_up(rec: Recording, p: Params) -> Verdict:
    """leaf2 passes the pauses on: the host that writes to the slow NIC sends half, and only on that rail."""
    held_up, free = (paused_share(rec, "observe", nic) for nic in (WRITER, BESIDE))
    before, during = (mbits(rec, WRITER, phase) for phase in ("baseline", "observe"))
    return expect(
        held_up > 0.2 and free < 0.01 and during < 0.55 * before,
        f"{WRITER} paused {held_up:.0%} of the time, {BESIDE} {free:.0%}; "
        f"{WRITER} sent {before:.1f} Mb/s before and {during:.1f} meanwhile",
    )


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port, and not the slow NIC, drops anything."""
    lost = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports)
    return expect(lost == 0, f"{lost} packets dropped")


def it_is_as_before(rec: Recording, p: Params) -> Verdict:
    """Both rails get the whole of their links again."""
    rates = {rail: [mbits(rec, f"h2:{rail}", phase) for phase in ("baseline", "verify")] for rail in RAILS}
    told = ", ".join(f"{rail} {before:.1f} Mb/s before, {after:.1f} after" for rail, (before, after) in rates.items())
    return expect(all(after > 0.98 * before for before, after in rates.values()), told)


ANSWER: Final = StoryAnswer(
    cause="slow-receiver",
    where=(SLOW, LEAF),
    level=2,
    workload="h1 to h4 run a ring on each rail: eth1 of each writes to eth1 of the next, and so does eth2",
    hints=(
        "every host waits: a step of the collective takes twice as long as it should",
        "rail 2, which is leaf2: on leaf1 all links are full and nobody pauses",
        "tx_prio3_pause of the NICs: eth1 and eth2 of each host, one by one",
        "rocelab congestion, and rocelab counters h3 leaf2 --priority 3",
        "h3:eth2 pauses leaf2, and each pause ends; h3:eth1, in the same host, pauses nobody",
    ),
    sign="one NIC of a host pauses its leaf again and again, and the host's other NICs do not",
    because="h3:eth2 takes in 50 Mb/s of the 100 that come: its PCIe link is half as wide as that of h3:eth1.",
    fix="Mend the NIC's PCIe link (lspci -vv: LnkSta beside LnkCap), or take the NIC out of the job.",
    prevention=(
        "Compare the NICs of a host with each other, and each with its rail: sums over a host hide a slow one."
    ),
)

SCENARIO = Scenario(
    "slow-rail", "rails.yaml", Params, run,
    (one_nic_pauses_and_its_sibling_does_not, its_rail_is_slow_and_the_other_is_not, the_writer_before_it_is_held_up,
     nothing_is_lost, it_is_as_before),
    answer=ANSWER,
)  # fmt: skip
