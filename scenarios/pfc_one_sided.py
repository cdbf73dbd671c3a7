"""PFC on one side only: the switch sends pauses, the hosts ignore them, and the lossless class loses packets.

Story
    Given  h1, h2 and h3 write to h4, and leaf1 pauses them: nothing is lost
    When   PFC reception is off at the hosts
    Then   leaf1 sends pauses as before, no host stops, the headroom fills, and leaf1 drops packets
    And    after each loss a QP retransmits, or waits for its timeout, so the rate varies
    When   PFC is on at both ends
    Then   nothing is lost

        h1, h2, h3 --100M each, PFC off-- leaf1 --100M-- h4

Numbers
    three hosts offer 200 Mb/s more than h4's link carries: 25 MB/s, which fill any headroom within milliseconds
    SoftRoCE waits 1.07 s for an ACK before it retransmits: a QP that lost its last packet is idle for that long
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.phase_measures import growth, listed, rdma_growth
from lab.scenario.shared_checks import rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_queue, show_rdma

SENDERS: Final = ("h1", "h2", "h3")
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
QUEUE: Final = "leaf1:swp6"
LAST_PAUSE: Final = 0.5
"""Seconds: a pause from before the fault expires after 0.34 s."""
SETTLING: Final = 3.0
"""Seconds: two ACK timeouts of a QP, and the retransmissions after them."""


class Params(PhaseParameters):
    """Longer phases, for QPs that wait for their timeouts."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Obeyed, ignored, obeyed."""

    def show() -> None:
        show_queue(stage, QUEUE)
        show_rdma(stage, "h4")

    faults = [fault("pauses-ignored", host) for host in SENDERS]
    with stage.writing(*(f"{host}:h4" for host in SENDERS), qps=4):
        three_acts(stage, p.hold, *faults, broken=LAST_PAUSE, healed=SETTLING, show=show)


def pauses_are_ignored(rec: Recording, p: Params) -> Verdict:
    """leaf1 sends pauses, the hosts count them as ignored, and no host is paused."""
    sent = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    ignored = [rec.delta("rx_prio3_pause_ignored", f"{host}:eth1", "observe") for host in SENDERS]
    paused = sum(rec.port(f"{host}:eth1").paused(3).during("observe").delta() for host in SENDERS)
    return expect(
        sum(sent) > 0 and sum(ignored) > 0 == paused,
        f"pauses sent {in_words(sent)}, ignored {in_words(ignored)}, hosts paused for {paused} us",
    )


def the_lossless_class_loses(rec: Recording, p: Params) -> Verdict:
    """leaf1 drops packets because its headroom is full, and only with the fault."""
    before, during, after = lost = growth(rec, QUEUE, "queue3_drop_headroom_packets")
    return expect(during > 0 == before == after, f"packets dropped because the headroom was full: {listed(lost)}")


def packets_are_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """The receiver's NIC misses packets with the fault, and neither before nor after."""
    before, during, after = missed = rdma_growth(rec, "h4", "out_of_seq_request")
    return expect(during > 0 == before == after, f"out_of_seq_request of h4: {listed(missed)}")


ANSWER: Final = StoryAnswer(
    cause="pfc-one-sided",
    where=("h1", "h2", "h3", "h1:eth1", "h2:eth1", "h3:eth1"),
    level=1,
    workload="h1, h2 and h3 write to h4 with four QPs each",
    hints=(
        "the lossless class loses packets, and h4 receives a fraction of its link's rate",
        "h1, h2 and h3: leaf1 pauses them, and they keep sending",
        "rx_prio3_pause_ignored of h1:eth1, and rx_prio3_pause_duration, which does not grow",
        "rocelab qos show h1, or rocelab counters h1 leaf1:swp3 --priority 3",
        "pauses arrive and are ignored: PFC reception is off at the hosts",
    ),
    sign="hosts count pauses as ignored (rx_prio3_pause_ignored)",
    because="PFC reception is off at h1, h2 and h3. They keep sending when paused, and leaf1's headroom overflows.",
    fix="Enable PFC at both ends: rocelab qos set h1 h2 h3 pfc.rx=true.",
    prevention="Negotiate PFC (DCBX), or check both ends of each link; alarm on any drop of the lossless class.",
)

SCENARIO = Scenario(
    "pfc-one-sided", "incast.yaml", Params, run,
    (pauses_are_ignored, the_lossless_class_loses, packets_are_out_of_sequence,
     rate_recovers(QUEUE, least=0.95)),
    answer=ANSWER,
)  # fmt: skip
