"""Gray loss: one packet in 256 vanishes on one link, and no counter of any device moves.

Story
    Given  h1 writes to h5 over both spines
    When   the link from leaf1 to spine1 loses one packet in 256, and counts none (Guo et al., SIGCOMM 2016, 4.1)
    Then   h5 sees packets out of sequence and NAKs, and h1 goes back and sends again all that followed
    And    every interface is up and no port has dropped anything: nothing alarms
    When   the link is mended
    Then   not a single packet is out of sequence any more

        h1 -- leaf1 ==x== spine1 == leaf2 -- h5
                  +==== spine2 ====+

Numbers
    one in 256 is 0.4%. SoftRoCE goes back to the packet that was lost, and up to 128 messages of 64 KiB are under way
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, time_of
from lab.scenario.state_changes import link_changes
from lab.scenario.traffic.workload import show_link, show_rdma

LINK: Final = "leaf1:swp1"
FAR: Final = "spine1:swp1"
SETTLING: Final = 1.5
"""Seconds: a QP whose last packet was lost waits for 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""
    one_in: Annotated[int, between(2, 65536)] = 256
    """Of so many packets one is lost."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, lossy, drained."""
    with stage.writing("h1:h5", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            loss = stage.inject("link-loss", LINK, one_in=p.one_in, priority="3")
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_link(stage, LINK)
        show_link(stage, FAR)
        show_rdma(stage, "h5")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(loss)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def packets_are_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """The receiver's NIC counts it, before not and meanwhile often."""
    before, during = (
        rec.rdma("h5").counter("out_of_seq_request").during(each).delta() for each in ("baseline", "observe")
    )
    return expect(before == 0 and during > 0, f"out_of_seq_request grew by {before} before, by {during} meanwhile")


def no_counter_of_a_device_tells(rec: Recording, p: Params) -> Verdict:
    """No port drops, no link goes down: what leaves leaf1 and does not arrive is only in the difference of two."""
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    links = link_changes(rec, "observe")
    left, arrived = (
        getattr(rec.port(port), what)(3).during("observe").delta()
        for port, what in ((LINK, "tx_packets"), (FAR, "rx_packets"))
    )
    told = f"{dropped} packets dropped, {len(links)} link events; {left} packets left {LINK}, {arrived} came to {FAR}"
    return expect(dropped == 0 and not links and left > arrived, told)


def one_in_so_many_is_missing(rec: Recording, p: Params) -> Verdict:
    """What is missing between the ends is what was asked for, to a packet that is under way at either end."""
    left = rec.port(LINK).tx_packets(3).during("observe").delta()
    missing = left - rec.port(FAR).rx_packets(3).during("observe").delta()
    return expect(
        abs(missing - left / p.one_in) <= 2, f"{missing} of {left} are missing, {left / p.one_in:.1f} were to be"
    )


def a_drained_link_is_quiet(rec: Recording, p: Params) -> Verdict:
    """Once nothing is lost, nothing is out of sequence."""
    late = rec.rdma("h5").counter("out_of_seq_request").during("verify").delta()
    return expect(late == 0, f"out_of_seq_request grew by {late}")


ANSWER: Final = StoryAnswer(
    cause="gray-loss",
    where=("leaf1:swp1", "leaf1--spine1"),
    level=3,
    workload="h1 writes to h5 with eight QPs",
    hints=(
        "h1 goes back and sends again all the time, and no device reports a loss",
        "between leaf1 and spine1: one of two paths",
        "out_of_seq_request of h5's device; tx_prio3_packets of leaf1:swp1 and rx_prio3_packets of spine1:swp1",
        "rocelab counters leaf1:swp1 spine1:swp1 --priority 3",
        "more packets leave leaf1:swp1 than come to spine1:swp1, and neither of them drops any",
    ),
    sign=(
        "packets of any size vanish on a link: one end sends more than the other receives, and no port drops "
        "(counters)"
    ),
    because=(
        "The link from leaf1 to spine1 loses one packet in 256 and counts none: a bad optic, connector or line card."
    ),
    fix="Drain the link, then clean or replace it.",
    prevention="Compare what leaves each link with what arrives, all the time; probe every path, not every device.",
)

SCENARIO = Scenario(
    "gray-loss", "incast.yaml", Params, run,
    (packets_are_out_of_sequence, no_counter_of_a_device_tells, one_in_so_many_is_missing,
     a_drained_link_is_quiet),
    captures=("h5:eth1",), answer=ANSWER,
)  # fmt: skip
