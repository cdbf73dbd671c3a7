"""802.3x PAUSE instead of PFC: a lossless port ignores it, and the host's NIC drops.

Story
    Given  h4 accepts half of h1's rate, and its NIC pauses leaf1 by PFC: nothing is lost
    When   h4's NIC is set to 802.3x flow control, and sends PAUSE frames (MAC control opcode 0x0001) instead of PFC
    Then   leaf1 counts them and keeps sending: its port has PFC on, and a link uses either PFC or PAUSE
    And    h4's own buffer is full, and its NIC drops packets of the lossless class
    When   the NIC uses PFC again
    Then   nothing is lost

        h1 -- leaf1 --100M--> h4: accepts 50M     <- PAUSE 0x0001, PFC is 0x0101

Numbers
    a PAUSE of 65535 quanta lasts 0.336 s at 100 Mb/s, and one is sent every 84 ms: 12 a second
    a port that obeys PAUSE is worse: PAUSE has no classes, so BGP and CNPs stop as well
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, dropped, growth, listed
from lab.scenario.shared_checks import rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_link, show_rdma

LEAF: Final = "leaf1:swp6"
HOST: Final = "h4:eth1"
NIC: Final = ("h4:eth1", "h4:rx-eth1")
EVERY: Final = 65535 * 512 / 100e6 / 4
"""Seconds between two PAUSE frames."""
SETTLING: Final = 3.0
"""Seconds: two ACK timeouts of a QP, and the retransmissions after them."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """PFC, PAUSE, PFC."""

    def show() -> None:
        show_link(stage, HOST)
        show_rdma(stage, "h4")

    stage.inject("slow-receiver", "h4", rate="50Mbit")
    faults = fault("global-pause", "h4"), fault("port-config", HOST, set="pfc.tx=false")
    with stage.writing("h1:h4"):
        three_acts(stage, p.hold, *faults, broken=0.5, healed=SETTLING, show=show)


def pause_frames_arrive(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1 counts as many 802.3x PAUSE frames as the NIC sends, and only with the fault."""
    before, during, after = received = growth(rec, LEAF, "rx_global_pause")
    sent = rec.phase("observe").seconds / EVERY
    evidence = f"PAUSE frames: {listed(received)}; one every {EVERY * 1e3:.0f} ms makes {sent:.1f}"
    return expect(before == after == 0 and abs(during - sent) <= 2, evidence)


def the_leaf_keeps_sending(rec: Recording, p: PhaseParameters) -> Verdict:
    """PFC pauses leaf1 before and after the fault; PAUSE frames do not pause it at all."""
    before, during, after = paused = growth(rec, LEAF, "rx_prio3_pause_duration")
    evidence = f"leaf1 paused: {listed(f'{each / 1e3:.0f} ms' for each in paused)}"
    return expect(during == 0 < min(before, after), evidence)


def the_host_nic_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """The NIC drops packets of the lossless class, and no switch does."""
    before, during, after = at_nic = [dropped(rec, phase, ports=NIC) for phase in ACTS]
    elsewhere = dropped(rec, "observe") - during
    evidence = f"dropped by h4's NIC: {listed(at_nic)}; by all other ports: {elsewhere}"
    return expect(before == after == elsewhere == 0 < during, evidence)


ANSWER: Final = StoryAnswer(
    cause="global-pause",
    where=("h4", "h4:eth1"),
    level=2,
    workload="h1 writes to h4, which accepts half of its link's rate",
    hints=(
        "packets of the lossless class are lost, and no switch drops any",
        "h4: its own NIC drops packets when its buffer is full",
        "rx_global_pause and rx_prio3_pause of leaf1:swp6",
        "rocelab capture leaf1:swp6 --seconds 1 -o pause.pcapng, then rocelab dissect",
        "h4 sends MAC control frames of opcode 0x0001, 802.3x PAUSE; PFC is 0x0101",
    ),
    sign="a port counts 802.3x PAUSE frames (rx_global_pause) and keeps sending",
    because="h4's NIC is set to 802.3x flow control. A port with PFC ignores PAUSE, so the NIC overflows.",
    fix="Enable PFC and disable link pause at h4's NIC.",
    prevention="Configure flow control on both ends with one tool; alarm on any rx_global_pause.",
)

SCENARIO = Scenario(
    "global-pause", "incast.yaml", PhaseParameters, run,
    (pause_frames_arrive, the_leaf_keeps_sending, the_host_nic_drops, rate_recovers(LEAF)), answer=ANSWER,
)  # fmt: skip
