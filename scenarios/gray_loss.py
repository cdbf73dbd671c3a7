"""Gray loss: one link loses one packet in 256, and no device counts a drop.

Story
    Given  h1 writes to h5 over both spines
    When   the link from leaf1 to spine1 loses one packet in 256 uncounted (Guo et al., SIGCOMM 2016, 4.1)
    Then   h5 receives packets out of sequence and sends NAKs, and h1 retransmits all that followed
    And    every interface is up and no port has dropped anything: no alarm
    When   the link is repaired
    Then   no packet is out of sequence

        h1 -- leaf1 ==x== spine1 == leaf2 -- h5
                  +==== spine2 ====+

Numbers
    one in 256 is 0.4%. SoftRoCE goes back to the lost packet, and up to 128 messages of 64 KiB are in flight
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, time_of
from lab.scenario.phase_measures import dropped, rdma_growth
from lab.scenario.state_changes import link_changes
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_link, show_rdma

LINK: Final = "leaf1:swp1"
FAR: Final = "spine1:swp1"
SETTLING: Final = 1.5
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


class Params(PhaseParameters):
    """The rate of loss."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""
    one_in: Annotated[int, between(2, 65536)] = 256
    """One packet in this number is lost."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, lossy, repaired."""

    def show() -> None:
        show_link(stage, LINK)
        show_link(stage, FAR)
        show_rdma(stage, "h5")

    with stage.writing("h1:h5", qps=8):
        loss = fault("link-loss", LINK, one_in=p.one_in, priority="3")
        three_acts(stage, p.hold, loss, healed=SETTLING, show=show)


def packets_are_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """The receiver's NIC counts packets out of sequence with the fault, and none before it."""
    before, during, _ = rdma_growth(rec, "h5", "out_of_seq_request")
    return expect(before == 0 and during > 0, f"out_of_seq_request of h5: {before} before, {during} with the fault")


def no_device_counts_a_drop(rec: Recording, p: Params) -> Verdict:
    """No port drops and no link goes down: only the difference between the two ends shows the loss."""
    lost = dropped(rec, "observe", priority=None)
    links = link_changes(rec, "observe")
    left, arrived = (
        getattr(rec.port(port), what)(3).during("observe").delta()
        for port, what in ((LINK, "tx_packets"), (FAR, "rx_packets"))
    )
    evidence = f"{lost} packets dropped, {len(links)} link events; {left} left {LINK}, {arrived} arrived at {FAR}"
    return expect(lost == 0 and not links and left > arrived, evidence)


def the_loss_is_as_injected(rec: Recording, p: Params) -> Verdict:
    """The number of missing packets is the injected one, except for one in flight at each end of the phase."""
    left = rec.port(LINK).tx_packets(3).during("observe").delta()
    missing = left - rec.port(FAR).rx_packets(3).during("observe").delta()
    evidence = f"{missing} of {left} packets are missing, {left / p.one_in:.1f} expected"
    return expect(abs(missing - left / p.one_in) <= 2, evidence)


def a_repaired_link_is_quiet(rec: Recording, p: Params) -> Verdict:
    """After the repair no packet is out of sequence."""
    (late,) = rdma_growth(rec, "h5", "out_of_seq_request", ["verify"])
    return expect(late == 0, f"out_of_seq_request of h5: {late}")


ANSWER: Final = StoryAnswer(
    cause="gray-loss",
    where=("leaf1:swp1", "leaf1--spine1"),
    level=3,
    workload="h1 writes to h5 with eight QPs",
    hints=(
        "h1 retransmits all the time, and no device reports a loss",
        "the link between leaf1 and spine1, one of two paths",
        "out_of_seq_request of h5's device; tx_prio3_packets of leaf1:swp1 and rx_prio3_packets of spine1:swp1",
        "rocelab counters leaf1:swp1 spine1:swp1 --priority 3",
        "more packets leave leaf1:swp1 than arrive at spine1:swp1, and neither port drops any",
    ),
    sign="a link loses packets of any size: one end sends more than the other receives, and no port drops (counters)",
    because="The link from leaf1 to spine1 loses one packet in 256 uncounted: a bad optic, connector or line card.",
    fix="Take the link out of service, then clean or replace it.",
    prevention="Compare the packet counts of both ends of every link; probe every path, and not every device.",
)

SCENARIO = Scenario(
    "gray-loss", "incast.yaml", Params, run,
    (packets_are_out_of_sequence, no_device_counts_a_drop, the_loss_is_as_injected, a_repaired_link_is_quiet),
    captures=("h5:eth1",), answer=ANSWER,
)  # fmt: skip
